import type { SendMessageRequest } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { HeldLease } from '../leases/heartbeat.js';
import type { TurnKind } from '../leases/lease-store.js';
import type { ArtifactRestart } from '../tasks/artifact-restart.js';
import type { MessageReceipt, PushReceiver, StoredTask, TaskScope } from '../tasks/task-store.js';

/** The subject of a turn. */
export interface TurnSubject {
  kind: TurnKind;
  scope: TaskScope;
  contextId: string;
  callContext: ServerCallContext;
  /** The message's request. A cancel turn has none. */
  request: SendMessageRequest | undefined;
  /** A repetition of the message is recognised by it. */
  receipt: MessageReceipt | undefined;
  /** A push receiver that came with the message. */
  push?: PushReceiver | undefined;
  /** Aborts when nobody waits for the answer any more; a follow-up then stops waiting to be admitted. */
  gone?: AbortSignal | undefined;
  /** The task is there already. */
  followUp: boolean;
  /** A turn that is run again, and what it begins its artifacts with. */
  again?: { turnId: string; attempt: number; restart: ArtifactRestart };
}

/** A task that a turn may run on, and the lease under which it does. */
export interface Admitted {
  stored: StoredTask;
  /** None where leases are off. */
  generation: number | undefined;
  /** Monotonic time at which the statement that admitted the turn was sent. */
  sentAt: number;
  /** The lease, where this replica keeps it alive already. */
  held?: HeldLease;
}
