import { randomUUID } from 'node:crypto';
import { type Task, TaskState, type TaskStatus } from '@a2a-js/sdk';
import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { Backoff } from '../async/backoff.js';
import { ConcurrentTaskModificationError } from '../errors/concurrent-task-modification.error.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { MessageRepeatedError } from '../errors/message-repeated.error.js';
import { racePoint } from '../race-points/race-points.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import { applyEvent } from '../tasks/apply-event.js';
import { beginTask, expandTaskEvent } from '../tasks/expand-task-event.js';
import { SnapshotPace } from '../tasks/snapshot-pace.js';
import { stateSetBy, type TaskEvent, type VersionedTaskEvent } from '../tasks/task-event.js';
import { copyEvent, encodeTask } from '../tasks/task-event.codec.js';
import { changesHead, headOf } from '../tasks/task-head.js';
import { endsTurn, isTerminal, stateOf } from '../tasks/task-states.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import type { CommittingTurn, CommitTarget } from './commit-target.js';
import { Deferred } from '../async/deferred.js';
import { GATHERED_BYTES, Gathering } from './gathering.js';
import { RecentEvents } from './recent-events.js';

interface Queued {
  event: TaskEvent;
  text: string;
}

/** The texts of the task that a commit stores beside its events; undefined ones stay as they are. */
interface TaskTexts {
  snapshot: string | undefined;
  head: string | undefined;
}

/** A completion that comes after the cancel was known is no longer wanted: COMPLETED does not follow a cancel (O40). */
const endsOtherwise = (state: TaskState | undefined): boolean =>
  state !== undefined && isTerminal(state) && state !== TaskState.TASK_STATE_CANCELED;

const submitted = (): TaskStatus => ({
  state: TaskState.TASK_STATE_SUBMITTED,
  message: undefined,
  timestamp: new Date().toISOString(),
});

/**
 * One turn's way into the event log. Events queue up synchronously; one loop takes everything queued, commits it in one
 * transaction, tells the streams, and repeats. The lease goes in the commit of the event that ends the turn.
 */
export class CommitLoop {
  private queue: Queued[] = [];
  private isPumping = false;
  /** How many events were queued so far, and how many of them are stored. */
  private added = 0;
  private stored = 0;
  private step = new Deferred<void>();
  private task: Task | undefined;
  private taskNo: number | undefined;
  private generation: number | undefined;
  private version = 0;
  private endQueued = false;
  private closed = false;
  private refusal: LeaseLostError | undefined;
  private firstTriedAt: number | undefined;
  private readonly gathering = new Gathering();
  private readonly recent = new RecentEvents();
  private readonly snapshots: SnapshotPace;

  private bytes = 0;
  private lastPublished: TaskState | undefined;
  private canceling: boolean;

  /** Resolves once an event that ends the turn is queued. */
  readonly sealed = new Deferred<void>();

  constructor(
    private readonly target: CommitTarget,
    private readonly tasks: VersionedTaskStore,
    private readonly stream: TaskEventStream,
    private readonly turn: CommittingTurn,
  ) {
    this.canceling = target.canceling;
    this.snapshots = new SnapshotPace(target.admitted?.stored.length);
    if (!target.admitted) return;
    const { stored, generation } = target.admitted;
    this.task = stored.task;
    this.taskNo = stored.taskNo;
    this.version = stored.version;
    this.generation = generation;
  }

  /** Bytes of events that wait to be stored. */
  get queuedBytes(): number {
    return this.bytes;
  }

  /** The last state that this turn itself published. */
  get published(): TaskState | undefined {
    return this.lastPublished;
  }

  /** The task is being canceled: CANCELED ends the turn, and nothing else does. */
  get isCanceling(): boolean {
    return this.canceling;
  }

  /** No more events: one that ends the turn is queued or stored, the turn is concluded, or the lease is lost. */
  get isSealed(): boolean {
    return this.endQueued || this.closed || this.refusal !== undefined;
  }

  /** The task as published so far; undefined while a new task has published nothing. */
  get current(): Task | undefined {
    return this.task;
  }

  get key(): { taskNo: number; generation: number | undefined; version: number } | undefined {
    return this.taskNo === undefined
      ? undefined
      : { taskNo: this.taskNo, generation: this.generation, version: this.version };
  }

  /** An ending event is on its way into the database or there: the lease may be gone because of us. */
  get isEnding(): boolean {
    return this.endQueued;
  }

  /** Queues a copy of an event. False where the turn has ended and the event changes nothing any more. */
  add(published: TaskEvent): boolean {
    if (this.isSealed) return false;
    // All copies are made before the first is queued: what cannot be copied throws, and then nothing has changed.
    const copies: Queued[] = [];
    for (const event of this.completed(published)) {
      if (this.canceling && endsOtherwise(stateSetBy(event))) return false;
      copies.push(copyEvent(this.target.restart?.apply(event) ?? event));
    }
    for (const queued of copies) {
      this.task = applyEvent(this.task, queued.event);
      this.queue.push(queued);
      this.added += 1;
      this.bytes += queued.text.length;
      const state = stateSetBy(queued.event);
      if (state === undefined) continue;
      this.lastPublished = state;
      this.gathering.hurry();
      if (isTerminal(state) || (endsTurn(state) && !this.canceling)) {
        this.endQueued = true;
        this.sealed.resolve();
        break;
      }
    }
    if (this.bytes > GATHERED_BYTES) this.gathering.hurry();
    if (this.queue.length > 0 && !this.isPumping) void this.pump();
    return true;
  }

  /** Begins a new task that has published nothing yet: what follows needs it, and its lease, to be there. */
  begin(): void {
    if (this.task) return;
    const { scope, contextId } = this.target;
    const task = { id: scope.taskId, contextId, status: submitted(), artifacts: [], history: [], metadata: undefined };
    this.add({ kind: 'task', task });
  }

  /** The task is to be canceled: from here on CANCELED ends the turn, and nothing else does. */
  cancel(): void {
    this.canceling = true;
  }

  /** Takes no more events; what is queued is still stored. */
  close(): void {
    this.closed = true;
    this.gathering.hurry();
  }

  /** Refuses everything from here on, queued events included. */
  refuse(refusal: LeaseLostError): void {
    if (this.refusal) return;
    this.refusal = refusal;
    this.queue = [];
    this.bytes = 0;
    this.sealed.resolve();
    this.gathering.hurry();
    this.stepped();
    this.turn.eventsRefused(refusal);
  }

  /** Stores the queued events without waiting for more. */
  hurry(): void {
    this.gathering.hurry();
  }

  /** Waits until all that is queued by now is stored. */
  async drained(): Promise<void> {
    const last = this.added;
    while (this.stored < last && !this.refusal) {
      const isUnderWay = this.added - this.queue.length >= last;
      if (!isUnderWay) this.gathering.hurry();
      await this.step.promise;
    }
    if (this.refusal) throw this.refusal;
  }

  /** A published event as the log takes it: a new task begins with a Task, a later Task becomes its differences. */
  private completed(event: TaskEvent): TaskEvent[] {
    const { scope, contextId, userMessage } = this.target;
    if (event.kind === 'task') {
      if (this.task) return expandTaskEvent(this.task, event.task, userMessage);
      return [
        userMessage ? { kind: 'task', task: beginTask(event.task, scope.taskId, contextId, userMessage) } : event,
      ];
    }
    if (this.task) return [event];
    const task: Task = {
      id: scope.taskId,
      contextId,
      status: submitted(),
      artifacts: [],
      history: userMessage ? [userMessage] : [],
      metadata: undefined,
    };
    return [{ kind: 'task', task }, event];
  }

  private async pump(): Promise<void> {
    this.isPumping = true;
    while (this.queue.length > 0 && !this.refusal) {
      const more = this.gathering.wait();
      if (more) {
        await more;
        continue;
      }
      const batch = this.queue;
      this.queue = [];
      this.gathering.sent(batch.length);
      try {
        await this.commit(batch);
      } catch (error) {
        if (error instanceof MessageRepeatedError) this.turn.messageRepeated(error.taskNo);
        this.refuse(
          error instanceof LeaseLostError
            ? error
            : new LeaseLostError(this.target.scope.taskId, 'the database refuses its events', { cause: error }),
        );
      }
    }
    // In the same step as the last look at the queue: an event that comes now starts the loop again.
    this.isPumping = false;
    this.gathering.idle();
  }

  private async commit(batch: Queued[]): Promise<void> {
    const events = batch.map(({ event }) => event);
    const bytes = batch.reduce((sum, { text }) => sum + text.length, 0);
    const ends = this.endQueued && this.queue.length === 0;
    // Nothing was queued since the batch was taken, so the task is what these events make of it.
    const snapshot = this.snapshots.next(bytes, () => encodeTask(this.task!), ends || this.taskNo === undefined);
    const head = events.some(changesHead) ? headOf(this.task!) : undefined;
    const { length } = batch;
    const before = await this.store(batch, ends, { snapshot, head });
    this.recent.stored(before, batch);
    const taskNo = this.taskNo!;
    this.bytes -= bytes;
    const stored = batch.map(({ event, text }, at): VersionedTaskEvent => ({
      version: before + at + 1,
      event,
      bytes: text.length,
    }));
    this.stream.committed(taskNo, stored);
    const state = events.map(stateSetBy).findLast((set) => set !== undefined);
    this.turn.committed({ taskNo, version: this.version, state, ended: ends ? this.task : undefined });
    this.stored += length; // what was stored again with it was counted before
    this.stepped();
  }

  private stepped(): void {
    this.step.resolve();
    this.step = new Deferred();
  }

  /** Stores a batch, whatever it takes until the deadline. Returns the version before it. */
  private async store(batch: Queued[], ends: boolean, texts: TaskTexts): Promise<number> {
    const commitId = randomUUID();
    const backoff = new Backoff();
    const begunAt = performance.now();
    let stale = false;
    let trouble: unknown;
    for (;;) {
      const timeoutMs = await this.leftMs(begunAt, trouble);
      try {
        if (stale) texts = await this.reload(batch, texts);
        stale = false;
        return await this.tryStore(batch, { commitId, ends, texts, timeoutMs });
      } catch (error) {
        if (error instanceof ConcurrentTaskModificationError && this.taskNo !== undefined) stale = true;
        else if (error instanceof StoreUnavailableError) await backoff.pause();
        else throw error;
        trouble = error;
      }
    }
  }

  /**
   * How long the next try may take: as long as the lease can be relied on. Renewals go on while nothing can be stored, so
   * there is a bound beside it: a batch that finds no way into the database for one TTL gives the lease up (I6).
   */
  private async leftMs(begunAt: number, trouble: unknown): Promise<number> {
    this.firstTriedAt ??= begunAt;
    const left = (): number => this.turn.deadline(this.firstTriedAt!) - performance.now();
    if (left() <= 0) await this.turn.confirmLease();
    if (this.refusal) throw this.refusal;
    const leftMs = left();
    if (leftMs <= 0) throw this.lost('its events could not be stored before it ran out', trouble);
    const isTriedOut = performance.now() - begunAt >= this.turn.retryMs;
    if (trouble !== undefined && isTriedOut) {
      throw this.lost(`its events could not be stored for ${this.turn.retryMs} ms`, trouble);
    }
    return leftMs;
  }

  private async tryStore(
    batch: Queued[],
    attempt: { commitId: string; ends: boolean; texts: TaskTexts; timeoutMs: number },
  ): Promise<number> {
    const { commitId, ends } = attempt;
    const { snapshot, head } = attempt.texts;
    const { scope, contextId, lease, receipt, push } = this.target;
    const events = batch.map(({ event }) => event);
    const given = {
      commitId,
      texts: batch.map(({ text }) => text),
      ...(Number.isFinite(attempt.timeoutMs) && { timeoutMs: Math.ceil(attempt.timeoutMs) }),
    };
    if (this.taskNo === undefined) {
      const options = {
        ...given,
        contextId,
        snapshot: snapshot ?? '',
        ...(head !== undefined && { head }),
        ...(receipt && { receipt }),
        ...(push && { push }),
      };
      racePoint('first-commit.before');
      const made = await this.tasks.create(scope, events, { ...options, ...(lease && !ends && { lease }) });
      racePoint('first-commit.after');
      this.taskNo = made.taskNo;
      this.version = made.version;
      this.generation = made.generation;
      // From the first try: that may have been the one that made it, with only its answer lost.
      // A turn that was given up meanwhile keeps nothing alive: the lease runs out, and what it is for is recovered.
      if (made.generation !== undefined && !this.refusal) {
        this.turn.leaseAcquired(made.generation, this.firstTriedAt ?? 0);
      }
      return 0;
    }
    const before = this.version;
    racePoint(ends ? 'ending-commit.before' : 'commit.before');
    this.version = await this.tasks.append({ taskNo: this.taskNo, taskId: scope.taskId }, events, {
      ...given,
      expectedVersion: before,
      endsTurn: ends,
      ...(this.generation !== undefined && { generation: this.generation }),
      ...(snapshot !== undefined && { snapshot }),
      ...(head !== undefined && { head }),
    });
    racePoint(ends ? 'ending-commit.after' : 'commit.after');
    return this.version - events.length;
  }

  /**
   * Somebody saved the task beside the turn, which still holds its lease: what is queued follows on that. Or the database
   * has lost what the turn has stored: that comes first.
   */
  private async reload(batch: Queued[], before: TaskTexts): Promise<TaskTexts> {
    const stored = await this.tasks.find(this.target.scope);
    if (!stored) throw this.lost('the task was deleted');
    if (isTerminal(stateOf(stored.task))) throw this.lost('the task has ended');
    if (stored.version < this.version) batch.unshift(...this.recent.lost(stored, this.version));
    this.version = stored.version;
    this.task = batch.reduce<Task>((task, { event }) => applyEvent(task, event), stored.task);
    const snapshot = before.snapshot === undefined ? undefined : encodeTask(this.task);
    const head = before.head === undefined ? undefined : headOf(this.task);
    this.task = this.queue.reduce<Task>((task, { event }) => applyEvent(task, event), this.task);
    return { snapshot, head };
  }

  private lost(detail: string, cause?: unknown): LeaseLostError {
    return new LeaseLostError(this.target.scope.taskId, detail, cause === undefined ? undefined : { cause });
  }
}
