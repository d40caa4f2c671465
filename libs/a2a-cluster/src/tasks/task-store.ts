import type { ListTasksRequest, ListTasksResponse, Message, Task, TaskState } from '@a2a-js/sdk';
import type { ServerCallContext, TaskStore } from '@a2a-js/sdk/server';
import type { LeaseRequest } from '../leases/lease-store.js';
import type { TaskScope } from './task-scope.js';
import type { StoredLength } from './snapshot-pace.js';
import type { TaskEvent, VersionedTaskEvent } from './task-event.js';
import { encodeTask } from './task-event.codec.js';
import { stateOf } from './task-states.js';

export type { TaskScope } from './task-scope.js';

/** A task and where its log stands. */
export interface StoredTask {
  /** The store's own key of the task. */
  taskNo: number;
  version: number;
  /** Version of the last status that an executor or the cluster set. */
  stateVersion: number;
  task: Task;
  /** How much was read of it, so that the snapshot is renewed in time. Stores without snapshots leave it out. */
  length?: StoredLength;
}

/** A task as a look at it finds it. */
export interface FoundTask extends StoredTask {
  scope: TaskScope;
  /** It waits for its client: nobody runs it, or the turn that runs has said what it needs. */
  waiting: boolean;
}

/** Where a task's log stands. */
export interface TaskPosition {
  version: number;
  /** Whether the task has ended, at this version; undefined where a store does not say. */
  ended: boolean | undefined;
}

/** A task that is larger than what was asked for: where it stands, and how large it is. */
export interface LargeTask extends Omit<FoundTask, 'task' | 'length'> {
  contextId: string;
  state: TaskState;
  /** How long its JSON is, or at most. */
  bytes: number;
}

/** The state of a task as a look at it finds it, whole or too large. */
export const foundState = (found: StoredTask | LargeTask): TaskState =>
  'task' in found ? stateOf(found.task) : found.state;

/** A task as JSON text. */
export interface TaskText {
  /** The version and the state that it shows. */
  version: number;
  state: TaskState;
  /** As `Task.toJSON` makes it. */
  text: string;
}

/** Waits until there is room for so many bytes in memory. Rejects where there is none in time. */
export type MakeRoom = (bytes: number) => Promise<void>;

/** A message as repetitions of it are recognised: by its id and its content. */
export interface MessageReceipt {
  messageId: string;
  /** Hash of the content: clients that reuse an id for another message get a new turn. */
  fingerprint: string;
  /** How long it is remembered, in ms. */
  windowMs: number;
}

/** A push receiver that comes with a message. */
export interface PushReceiver {
  configId: string;
  /** JSON of the TaskPushNotificationConfig. */
  config: string;
  /** The protocol version that it is to be told in. */
  wireVersion: string;
}

/** Identifies one attempt at a write, so that a repetition finds what it has done. */
export interface WriteOptions {
  /** Bound of the call in ms, so that a write does not outlive the lease that permits it. */
  timeoutMs?: number;
}

/** The texts and bounds that come with events. */
export interface EventOptions extends WriteOptions {
  /** The events as JSON texts, where the caller has them already: one for each event, each on one line. */
  texts?: readonly string[];
}

/** A new task's first commit. */
export interface CreateOptions extends EventOptions {
  contextId: string;
  /** Identifies this commit: a repetition after a lost answer finds that it was done. */
  commitId: string;
  /** JSON of the task after these events (`Task.toJSON`). */
  snapshot: string;
  /** The same without history and artifacts, for lists; '' or left out: lists read the snapshot. */
  head?: string;
  /** The lease of the turn; none where these events already end it, or where leases are off. */
  lease?: LeaseRequest;
  /** Remembers the message in the same transaction. */
  receipt?: MessageReceipt;
  /** Registers a push receiver in the same transaction: it is told everything from the Task on. */
  push?: PushReceiver;
}

/** The keys that a first commit has made. */
export interface CreatedTask {
  taskNo: number;
  version: number;
  /** Fencing token of the lease, where one was asked for. */
  generation: number | undefined;
}

/** A later commit. */
export interface AppendOptions extends EventOptions {
  /** The version that these events follow on. */
  expectedVersion: number;
  commitId: string;
  /** The lease that permits the write. Without one only the version guards it. */
  generation?: number;
  /** These events end the turn: the lease goes in the same transaction. */
  endsTurn: boolean;
  /** JSON of the task after these events, to renew the snapshot with. */
  snapshot?: string;
  /**
   * The same without history and artifacts, for lists, where these events change it. '', or left out where they may change
   * it: lists read the snapshot.
   */
  head?: string;
}

/** A follow-up's admission. */
export interface AdmitOptions extends WriteOptions {
  /** Identifies the turn, and the commit of its message. Default: the lease's. */
  turnId?: string;
  /** A try before this one may have gone through with its answer lost: look for it first. */
  again?: boolean;
  /** Remembers the message in the same transaction. */
  receipt?: MessageReceipt;
  /** Registers a push receiver in the same transaction: it is told what comes after the message. */
  push?: PushReceiver;
}

/** The decision about a follow-up's message. */
export type Admission =
  | { outcome: 'admitted'; generation: number | undefined; stored: StoredTask }
  | { outcome: 'unknown' }
  /** Admitted by an earlier try whose answer was lost, and taken over or ended by others since. */
  | { outcome: 'lost'; stored: StoredTask }
  /** The same message was accepted before. */
  | { outcome: 'repeated'; taskNo: number }
  | { outcome: 'terminal'; state: TaskState }
  | { outcome: 'otherContext'; contextId: string }
  /** A turn runs; `waiting`: it has said what it needs and is about to let go. */
  | { outcome: 'busy'; waiting: boolean }
  /** The lease found has run out: claim and recover it first. */
  | { outcome: 'abandoned' };

/** The answer to a request to cancel a task. */
export type CancelRequest =
  | { outcome: 'unknown' }
  | { outcome: 'terminal'; stored: StoredTask }
  /** A turn runs, here or elsewhere: it is told. */
  | { outcome: 'requested'; taskNo: number; version: number }
  | { outcome: 'abandoned' }
  /** Nobody runs it: the lease of a cancel turn is now ours. */
  | { outcome: 'admitted'; generation: number | undefined; stored: StoredTask };

/**
 * Tasks with a dense event log and optimistic locking. Provide your own under this class as the token
 * (`extraProviders`) to replace it. It is also the SDK's `TaskStore`, for code that uses one: `save` is locked by the
 * version that the last `load` in the same call context saw, and throws {@link ConcurrentTaskModificationError} where
 * it is stale. Such a `save` adds and replaces; what it leaves out is kept.
 *
 * What its errors mean to the library:
 * - {@link StoreUnavailableError}: it cannot be done now. The library asks again, for as long as the lease lives.
 * - {@link LeaseLostError}: somebody else has the lease, or the task has ended or is gone. The turn stops.
 * - {@link ConcurrentTaskModificationError}: the version has moved. The task is read and the events are stored anew.
 * - {@link MessageRepeatedError}: the message was accepted before. Its sender gets that task.
 * - Anything else is a defect: the turn ends FAILED or loses its lease, and the error is logged.
 */
export abstract class VersionedTaskStore implements TaskStore {
  /** Finds a task with everything it holds. */
  abstract find(scope: TaskScope): Promise<FoundTask | undefined>;

  /** The same by the store's own key. */
  abstract findByNo(taskNo: number): Promise<FoundTask | undefined>;

  /**
   * Finds a task as `find` and `findByNo` do, but only what it takes to decide about it where its JSON is much longer than
   * `maxBytes`: then nothing large is read. A store that does not know lengths may return all tasks whole, as this does.
   */
  findUpTo(which: TaskScope | number, _maxBytes: number): Promise<FoundTask | LargeTask | undefined> {
    return typeof which === 'number' ? this.findByNo(which) : this.find(which);
  }

  /** A task as JSON text, which need not be decoded to be sent. */
  async readText(taskNo: number): Promise<TaskText | undefined> {
    const found = await this.findByNo(taskNo);
    if (!found) return undefined;
    const { version, task } = found;
    return { version, state: stateOf(task), text: encodeTask(task) };
  }

  /** The task of a message that was accepted before, within its window. */
  abstract findRepeated(scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined>;

  /**
   * Stores a new task. Throws {@link ConcurrentTaskModificationError} where the id is taken, and
   * {@link MessageRepeatedError} where the message of the receipt was accepted before.
   */
  abstract create(scope: TaskScope, events: readonly TaskEvent[], options: CreateOptions): Promise<CreatedTask>;

  /**
   * Appends events and advances the version by their number, or changes nothing at all: throws
   * {@link ConcurrentTaskModificationError} where the version moved and {@link LeaseLostError} where the generation is
   * no longer that of the task's lease or the task has ended. Returns the new version.
   */
  abstract append(
    task: { taskNo: number; taskId: string },
    events: readonly TaskEvent[],
    options: AppendOptions,
  ): Promise<number>;

  /** Admits a follow-up: its message and its lease in one transaction, or neither. */
  abstract admit(
    scope: TaskScope,
    message: Message,
    lease: LeaseRequest | undefined,
    options?: AdmitOptions,
  ): Promise<Admission>;

  /** Marks a running task for cancellation, or takes the lease of a waiting one. */
  abstract requestCancel(
    scope: TaskScope,
    lease: LeaseRequest | undefined,
    options?: WriteOptions,
  ): Promise<CancelRequest>;

  /**
   * Ends a task with this status whoever runs it: takes its lease away. With `idleSince`, only where nobody runs it and
   * that is still the version of its last status. Returns the task as it then stands.
   */
  abstract forceEnd(
    scope: TaskScope,
    end: (task: Task) => TaskEvent,
    options?: WriteOptions & { idleSince?: number },
  ): Promise<StoredTask>;

  /**
   * Tasks that have been waiting for their client for longer than this, with nobody running them, in order of number.
   */
  abstract overdue(
    waitingForMs: number,
    limit: number,
    afterTaskNo: number,
  ): Promise<{ taskNo: number; scope: TaskScope; stateVersion: number }[]>;

  /**
   * Tasks of this agent in a running state that nobody holds a lease on and that have not changed for longer than this,
   * oldest first, at most `limit`. They were begun without leases: a replica that starts warns of them. Default: none, for
   * stores that cannot tell.
   */
  withoutLease(_unchangedForMs: number, _limit: number): Promise<TaskScope[]> {
    return Promise.resolve([]);
  }

  /**
   * Deletes events older than this which the snapshot contains and every push receiver has, at most `limit`. Returns
   * how many.
   */
  abstract pruneEvents(olderThanMs: number, limit: number): Promise<number>;

  /** Forgets messages older than this, at most `limit`. Returns how many. */
  abstract pruneReceipts(olderThanMs: number, limit: number): Promise<number>;

  /**
   * Deletes tasks of this agent that ended longer ago than this and whose end every push receiver has, at most `limit`,
   * with their receivers and effects; their events are pruned by `pruneEvents`. Returns how many.
   */
  abstract pruneTasks(olderThanMs: number, limit: number): Promise<number>;

  /**
   * Events after a version, in order, at most `limit`, ending early with the one that makes a MiB full. Fewer only where
   * the log ends.
   */
  abstract readEvents(taskNo: number, afterVersion: number, limit: number): Promise<VersionedTaskEvent[]>;

  /** Current versions of these tasks; one that was deleted is missing. */
  abstract versions(taskNos: readonly number[]): Promise<Map<number, number>>;

  /** The same, and which of them have ended, where the store can tell that without reading whole tasks. */
  async positions(taskNos: readonly number[]): Promise<Map<number, TaskPosition>> {
    const versions = await this.versions(taskNos);
    return new Map([...versions].map(([taskNo, version]) => [taskNo, { version, ended: undefined }]));
  }

  abstract load(taskId: string, context: ServerCallContext): Promise<Task | undefined>;
  abstract save(task: Task, context: ServerCallContext): Promise<void>;
  /**
   * `makeRoom` is asked before more than a few bytes are read; a store that holds everything in memory need not ask.
   */
  abstract list(params: ListTasksRequest, context: ServerCallContext, makeRoom?: MakeRoom): Promise<ListTasksResponse>;
}
