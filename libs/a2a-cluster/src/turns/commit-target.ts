import type { Message, Task, TaskState } from '@a2a-js/sdk';
import type { LeaseLostError } from '../errors/lease-lost.error.js';
import type { LeaseRequest } from '../leases/lease-store.js';
import type { ArtifactRestart } from '../tasks/artifact-restart.js';
import type { MessageReceipt, PushReceiver, StoredTask, TaskScope } from '../tasks/task-store.js';

/** The task that a turn writes to, with its lease and its keys. */
export interface CommitTarget {
  scope: TaskScope;
  contextId: string;
  userMessage: Message | undefined;
  /** The lease that the first commit of a new task brings with it. */
  lease: LeaseRequest | undefined;
  /** A repetition of the message of a new task is recognised by it. */
  receipt: MessageReceipt | undefined;
  /** A push receiver that came with the message of a new task. */
  push?: PushReceiver | undefined;
  /** The task that a follow-up was admitted to. */
  admitted?: { stored: StoredTask; generation: number | undefined };
  /** A turn that is run again begins its artifacts anew. */
  restart?: ArtifactRestart | undefined;
  /** The turn cancels its task: only CANCELED ends it. */
  canceling: boolean;
}

/** The turn of a commit loop: what the loop asks it, and what the loop tells it. */
export interface CommittingTurn {
  /** For how long one batch of events is tried again, in ms. A batch that finds no way in for so long is given up. */
  readonly retryMs: number;
  /** Monotonic time until which a write may be tried; for a new task, given when its first commit was first tried. */
  deadline(firstTriedAt: number): number;
  /** Finds out whether the lease is held where its deadline has passed: this process may have stood still. */
  confirmLease(): Promise<unknown>;
  /** The first commit of a new task has brought its lease. */
  leaseAcquired(generation: number, sentAt: number): void;
  /** Events are stored. */
  committed(committed: Committed): void;
  /** The first commit found that the message was accepted before, for this task. The loop refuses all events then. */
  messageRepeated(taskNo: number): void;
  /** The loop refuses all events from here on. */
  eventsRefused(refusal: LeaseLostError): void;
}

/** The events that a commit has made durable. */
export interface Committed {
  taskNo: number;
  version: number;
  /** The state that the last status in it set, if it set one. */
  state: TaskState | undefined;
  /** The task after it; only where it ended the turn, since more may be queued otherwise. */
  ended: Task | undefined;
}
