import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import { Injectable } from '@nestjs/common';
import { pause } from '../async/pause.js';
import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import { stateSetBy } from '../tasks/task-event.js';
import { endsTurn, isTerminal } from '../tasks/task-states.js';
import { foundState, type FoundTask, type LargeTask } from '../tasks/task-store.js';

/** Why a look has ended. Given, since an abort without a reason makes an error, with its stack. */
const NOBODY_WAITS = 'nobody waits for it any more';

/** The wait for one task, which all who wait for it on this replica share. */
interface Look {
  waiting: number;
  readonly stop: AbortController;
  readonly settled: Promise<FoundTask | LargeTask | undefined>;
}

/** A task has ended, or waits for its client. */
export const isSettled = (found: FoundTask | LargeTask): boolean => found.waiting || isTerminal(foundState(found));

/**
 * Waits for tasks whose turn runs elsewhere until they have ended or wait for their client. Whoever waits for the same
 * task shares one follower and one look per poll interval, which reads the task's position alone. It stops with the last
 * of them.
 */
@Injectable()
export class SettledTasks {
  private readonly looks = new Map<number, Look>();
  private readonly pollIntervalMs: number;

  constructor(
    private readonly tasks: LeasedTaskStore,
    private readonly stream: TaskEventStream,
    { streams }: ResolvedOptions,
  ) {
    this.pollIntervalMs = streams.pollIntervalMs;
  }

  /**
   * Resolves once the task is settled: with its position, or with undefined if the signal aborts or the streams close
   * before. Throws TaskNotFoundError where it is deleted.
   */
  async wait(taskNo: number, gone: AbortSignal): Promise<FoundTask | LargeTask | undefined> {
    if (gone.aborted) return undefined;
    const look = this.lookFor(taskNo);
    look.waiting += 1;
    let leave!: () => void;
    const left = new Promise<undefined>((resolve) => (leave = () => resolve(undefined)));
    gone.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([look.settled, left]);
    } finally {
      gone.removeEventListener('abort', leave);
      look.waiting -= 1;
      if (look.waiting === 0) {
        look.stop.abort(NOBODY_WAITS);
        if (this.looks.get(taskNo) === look) this.looks.delete(taskNo);
      }
    }
  }

  private lookFor(taskNo: number): Look {
    const running = this.looks.get(taskNo);
    if (running) return running;
    const stop = new AbortController();
    const look: Look = { waiting: 0, stop, settled: this.look(taskNo, stop.signal) };
    const forget = (): void => {
      if (this.looks.get(taskNo) === look) this.looks.delete(taskNo);
    };
    // Those who wait hear of its failure; the last one may be gone by then.
    look.settled.then(forget, forget);
    this.looks.set(taskNo, look);
    return look;
  }

  private async look(taskNo: number, stop: AbortSignal): Promise<FoundTask | LargeTask | undefined> {
    while (!stop.aborted && !this.stream.closed.aborted) {
      const found = await this.position(taskNo);
      if (!found) await pause(this.pollIntervalMs);
      else if (isSettled(found)) return found;
      else await this.turnMayEnd(taskNo, found.version, stop);
    }
    return undefined;
  }

  /**
   * An event may have ended the turn, or a poll interval is over: a release without an event is found by looking. The
   * events only make the next look come sooner, so one that cannot be read, as while the database is away, ends nothing.
   */
  private async turnMayEnd(taskNo: number, version: number, stop: AbortSignal): Promise<void> {
    const until = AbortSignal.any([stop, AbortSignal.timeout(this.pollIntervalMs)]);
    try {
      for await (const batch of this.stream.batches(taskNo, version, until)) {
        if (batch.some(({ event }) => endsTurn(stateSetBy(event) ?? 0))) return;
      }
    } catch (error) {
      if (error instanceof TaskNotFoundError) throw error;
      await pause(this.pollIntervalMs);
    }
  }

  /** Where the task stands, without what it holds. A turn is often lost because the database is away: undefined then. */
  private async position(taskNo: number): Promise<FoundTask | LargeTask | undefined> {
    try {
      const found = await this.tasks.findUpTo(taskNo, 0);
      if (!found) throw new TaskNotFoundError('The task was deleted.');
      return found;
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      return undefined;
    }
  }
}
