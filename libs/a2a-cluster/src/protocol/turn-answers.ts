import { Injectable } from '@nestjs/common';
import type { Message, StreamResponse, Task } from '@a2a-js/sdk';
import { TaskState } from '@a2a-js/sdk';
import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import { ReplicaDrainingError } from '../errors/replica-draining.error.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { LARGE_BYTES } from '../tasks/json-size.js';
import { stateSetBy, toStreamResponses, type VersionedTaskEvent } from '../tasks/task-event.js';
import { endsTurn } from '../tasks/task-states.js';
import type { FoundTask, LargeTask } from '../tasks/task-store.js';
import type { TurnProgress } from '../turns/turn-outcome.js';
import { readerGone } from '../transports/flow/response-flow.js';
import { isSettled, SettledTasks } from './settled-tasks.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';

/**
 * Why nothing of a turn is waited for any more. Given, since an abort without a reason makes an error, with its stack.
 */
const OVER = 'over';

/** Reads what a large task holds, or makes what stands for it, and says where it stood then. */
export type ReadLarge = (large: LargeTask) => Promise<{ task: Task; version: number; state: TaskState }>;

/**
 * Answers the sender of a message: at once, at the end of the turn, or as a stream. A large task that has to be
 * read is left to the caller to read.
 */
@Injectable()
export class TurnAnswers {
  constructor(
    private readonly tasks: LeasedTaskStore,
    private readonly stream: TaskEventStream,
    private readonly settledTasks: SettledTasks,
  ) {}

  /** As soon as the message is durable. */
  async first(turn: TurnProgress): Promise<Message | Task | LargeTask> {
    const opening = await turn.opened;
    switch (opening.kind) {
      case 'message':
        return opening.message;
      case 'task':
        return opening.task ?? (await this.read(opening.taskNo));
      case 'repeated':
        return this.read(opening.taskNo);
      case 'refused':
        throw opening.error;
    }
  }

  /** When the task has ended or waits for its client, or when the agent has answered with a message. */
  async final(turn: TurnProgress): Promise<Message | Task | LargeTask> {
    const outcome = await Promise.race([turn.outcome, turn.authRequired]);
    switch (outcome.kind) {
      case 'message':
        return outcome.message;
      case 'ended':
        return outcome.task;
      case 'authRequired':
        return this.read(outcome.taskNo);
      case 'lost':
      case 'repeated':
        return this.settled(outcome.taskNo);
      case 'refused':
        throw outcome.error;
    }
  }

  /**
   * The Task, then the turn's events, until it ends the task or waits for its client. `read` reads a task that is found to
   * be large.
   */
  async *streamed(turn: TurnProgress, gone: AbortSignal, read: ReadLarge): AsyncGenerator<StreamResponse[], void> {
    const opening = await turn.opened;
    switch (opening.kind) {
      case 'message':
        yield [{ payload: { $case: 'message', value: opening.message } }];
        return;
      case 'repeated':
        yield* this.fromNowOn(opening.taskNo, gone, read);
        return;
      case 'refused':
        throw opening.error;
    }
    // A new task's first event is its Task; a follow-up's answer begins with the task as it was admitted.
    if (opening.task) yield [{ payload: { $case: 'task', value: opening.task } }];
    yield* this.events(turn, opening.taskNo, opening.version, gone);
    if (turn.reply && !gone.aborted) {
      const outcome = await turn.outcome;
      if (outcome.kind === 'refused') throw outcome.error;
      if (outcome.kind === 'message') yield [{ payload: { $case: 'message', value: outcome.message } }];
    }
  }

  private async *events(
    turn: TurnProgress,
    taskNo: number,
    fromVersion: number,
    gone: AbortSignal,
  ): AsyncGenerator<StreamResponse[], void> {
    const over = new AbortController();
    const stop = (): void => over.abort(OVER);
    if (gone.aborted) stop();
    gone.addEventListener('abort', stop, { once: true });
    let cursor = fromVersion;
    let last = Infinity;
    const endsAt = (version: number): void => {
      last = version;
      if (cursor >= last) stop();
    };
    void this.endOf(turn, taskNo, () => cursor, over.signal)
      .then((version) => {
        if (version !== undefined) endsAt(version);
      })
      .catch(stop);
    try {
      yield* this.upToEnd(taskNo, fromVersion, over.signal, ({ version, event }) => {
        cursor = version;
        // A message of the user begins the next turn, of which this one may hear before it hears of its own end.
        const isOthers = event.kind === 'userMessage' && turn.published !== TaskState.TASK_STATE_AUTH_REQUIRED;
        return isOthers || cursor >= last;
      });
    } finally {
      stop();
    }
  }

  /**
   * The version that is the last of a turn's stream, once the turn is over; undefined where the stream ends by an event.
   * Throws where the turn was refused.
   */
  private async endOf(
    turn: TurnProgress,
    taskNo: number,
    cursor: () => number,
    over: AbortSignal,
  ): Promise<number | undefined> {
    const outcome = await turn.outcome;
    // One that waits for authentication keeps its stream open.
    if (turn.published === TaskState.TASK_STATE_AUTH_REQUIRED) return undefined;
    switch (outcome.kind) {
      case 'ended':
        return outcome.version;
      case 'message':
        return turn.version;
      case 'refused':
        throw outcome.error;
      default: {
        // A lost turn goes on elsewhere, and may end there without an event: then the task waits for its client.
        const waitsAt = await this.waitsAt(taskNo, over);
        // Commits that were lost by the database are made up for by the stream, which ends with the state that is left.
        return waitsAt !== undefined && waitsAt >= cursor() ? waitsAt : undefined;
      }
    }
  }

  /** The events after a version, up to an event that ends the turn or to the last version. */
  private async *upToEnd(
    taskNo: number,
    fromVersion: number,
    signal: AbortSignal,
    isLast: (event: VersionedTaskEvent) => boolean = () => false,
  ): AsyncGenerator<StreamResponse[], void> {
    for await (const batch of this.stream.batches(taskNo, fromVersion, signal)) {
      const end = batch.findIndex((event) => isLast(event) || endsTurn(stateSetBy(event.event) ?? 0));
      const events = end < 0 ? batch : batch.slice(0, end + 1);
      yield toStreamResponses(events);
      if (end >= 0) return;
    }
  }

  /**
   * The task once it has ended or waits for its client, whoever brings it there: the lease was lost, or another turn has
   * the message. A state from before the message is no answer (O49).
   */
  private async settled(taskNo: number): Promise<Task | LargeTask> {
    const settled = await this.settledTasks.wait(taskNo, readerGone());
    if (settled) return this.read(taskNo);
    throw new ReplicaDrainingError();
  }

  /** The version at which a task waits for its client; undefined where its stream brings the end itself. */
  private async waitsAt(taskNo: number, stop: AbortSignal): Promise<number | undefined> {
    try {
      const settled = await this.settledTasks.wait(taskNo, stop);
      return settled?.waiting ? settled.version : undefined;
    } catch {
      // The task is gone, which the stream finds by itself, or cannot be read: neither is an end in order.
      return undefined;
    }
  }

  /** A repeated message's stream: the task as it is, then what follows, until it ends or waits for its client. */
  private async *fromNowOn(taskNo: number, gone: AbortSignal, read: ReadLarge): AsyncGenerator<StreamResponse[], void> {
    const found = await this.find(taskNo);
    const { task, version, state } = 'task' in found ? { ...found, state: undefined } : await read(found);
    yield [{ payload: { $case: 'task', value: task } }];
    // A large one is read after it was looked at, and may have come to its end in between.
    if (isSettled(found) || endsTurn(state ?? 0)) return;
    yield* this.upToEnd(taskNo, version, gone);
  }

  private async read(taskNo: number): Promise<Task | LargeTask> {
    const found = await this.find(taskNo);
    return 'task' in found ? found.task : found;
  }

  private async find(taskNo: number): Promise<FoundTask | LargeTask> {
    const found = await this.tasks.findUpTo(taskNo, LARGE_BYTES);
    if (!found) throw deleted();
    return found;
  }
}

const deleted = (): Error => new TaskNotFoundError('The task was deleted.');
