import { setMaxListeners } from 'node:events';
import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import { Injectable } from '@nestjs/common';
import { DatabaseAccess } from '../connection/database-access.js';
import { MIN_STATEMENT_TIMEOUT_MS } from '../connection/database-limits.js';
import { tablesOf } from '../schema/table-names.js';
import { isPassing } from '../connection/database-errors.js';
import { racePoint } from '../../race-points/race-points.js';
import { levelingEvents } from '../../tasks/expand-task-event.js';
import { endsTask, isFullPage, upToEnd, type VersionedTaskEvent } from '../../tasks/task-event.js';
import { type StoredTask, type TaskPosition, VersionedTaskStore } from '../../tasks/task-store.js';
import { FollowedTask } from '../../streams/followed-task.js';
import { NotifyChannel } from './notify-channel.js';
import { Poller } from '../../streams/poller.js';
import { TaskEventStream, type WakeupListener } from '../../streams/task-event-stream.js';
import { ResolvedOptions } from '../../options/cluster.options.js';
import { LibraryLogger } from '../../logging/library.logger.js';

const PAGE_EVENTS = 200;

/** Why the wait of a follower ended. Given, since an abort without a reason makes an error, with its stack. */
const STOPPED = 'stopped';

/** A followed task, and what was known of it before a poll asked. */
interface PolledTask {
  taskNo: number;
  task: FollowedTask;
  known: number;
  losses: number;
}

/** Streams from the event log in the app's database. */
@Injectable()
export class TypeOrmTaskEventStream extends TaskEventStream {
  private readonly logger = new LibraryLogger('A2AClusterStream');
  private readonly followed = new Map<number, FollowedTask>();
  private readonly listeners: WakeupListener[] = [];
  private readonly commitListeners: ((taskNo: number) => void)[] = [];
  private readonly channel: NotifyChannel | undefined;
  private readonly closing = new AbortController();

  constructor(
    access: DatabaseAccess,
    private readonly tasks: VersionedTaskStore,
    private readonly poller: Poller,
    { streams }: ResolvedOptions,
  ) {
    super();
    setMaxListeners(0, this.closing.signal);
    poller.register(() => this.poll());
    const database = access.require();
    // Without LISTEN and NOTIFY the poll alone brings what other replicas commit.
    if (!streams.notify) return;
    const { tasks: tasksTable } = tablesOf(database.dataSource);
    const timeoutMs = Math.max(MIN_STATEMENT_TIMEOUT_MS, streams.pollIntervalMs);
    const channel = new NotifyChannel(database, tasksTable, timeoutMs, (taskNos) => this.wake(taskNos));
    poller.register(() => channel.runOnce());
    this.channel = channel;
  }

  override get closed(): AbortSignal {
    return this.closing.signal;
  }

  override async *batches(
    taskNo: number,
    fromVersion: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly VersionedTaskEvent[], void> {
    const [stop, unlink] = either(signal, this.closing.signal);
    const task = this.enter(taskNo);
    task.seen(fromVersion);
    let cursor = fromVersion;
    let { losses } = task;
    let looked: ReturnType<FollowedTask['look']> | undefined;
    let until = Infinity;
    try {
      while (!signal.aborted) {
        // Closing cuts nobody off from what this replica knows of already: the end of a turn that it stopped is in it.
        if (this.closed.aborted) until = Math.min(until, task.knownVersion);
        if (cursor >= until) return;
        const isQuiet = task.recent(cursor).length === 0 && !task.hasNews(cursor, looked);
        // If commits were lost, later events may have the versions of events that this follower was told.
        if (task.losses !== losses || (isQuiet && task.endedAt !== undefined && cursor >= task.endedAt)) {
          losses = task.losses;
          looked = undefined;
          if (cursor === 0) continue; // it was told nothing yet
          const stored = await this.stored(taskNo, stop);
          cursor = stored.version;
          task.seen(cursor);
          const level = levelingEvents(stored, cursor);
          yield level;
          if (endsTask(level.at(-1)!)) return;
          continue;
        }
        if (isQuiet) {
          if (this.closed.aborted) return;
          if (task.deleted) throw deleted();
          await untilWakeup(task, stop);
          continue;
        }
        let events = task.recent(cursor);
        if (events.length === 0) {
          looked = task.look();
          events = await this.page(task, taskNo, cursor, stop);
          if (task.losses !== losses) continue; // it may be from before them
          if (isFullPage(events, PAGE_EVENTS)) looked = undefined; // there may be more behind a full page
        }
        const batch = upToEnd(events);
        const last = batch.at(-1);
        if (!last) continue;
        yield batch;
        if (endsTask(last)) return;
        cursor = Math.max(cursor, last.version);
        if (task.losses === losses) task.seen(cursor);
      }
    } finally {
      unlink();
      this.leave(taskNo, task);
    }
  }

  override committed(taskNo: number, events: readonly VersionedTaskEvent[]): void {
    this.followed.get(taskNo)?.committed(events);
    racePoint('fan-out.after');
    this.channel?.send(taskNo);
    for (const listener of this.commitListeners) listener(taskNo);
  }

  override onCommitted(listener: (taskNo: number) => void): void {
    this.commitListeners.push(listener);
  }

  override changed(taskNo: number): void {
    this.wake([taskNo]);
    this.channel?.send(taskNo);
  }

  override onWakeup(listener: WakeupListener): void {
    this.listeners.push(listener);
  }

  override async close(): Promise<void> {
    this.closing.abort();
    await this.channel?.close();
  }

  private wake(taskNos: readonly number[] | undefined): void {
    for (const listener of this.listeners) listener(taskNos);
    for (const taskNo of taskNos ?? this.followed.keys()) this.followed.get(taskNo)?.wake();
  }

  /**
   * One statement for all followed tasks: whose log is longer than what this replica has seen of it, and whose is shorter?
   */
  private async poll(): Promise<void> {
    if (this.followed.size === 0) return;
    const polled = [...this.followed].map(([taskNo, task]) => ({
      taskNo,
      task,
      known: task.knownVersion,
      losses: task.losses,
    }));
    const doubtful = (await this.look(polled)).map(({ one }) => one);
    if (doubtful.length === 0) return;
    // A second look, begun after the first one's answer: what was lost stays lost, whichever connection is asked.
    for (const { one, position } of await this.look(doubtful)) this.lose(one, position);
  }

  /**
   * Tells followers what there is of their tasks, and returns those of which there is less than was known before it was
   * asked. An answer that is only older is none of them: a version is known here once it is committed, and a statement
   * sees all that was committed before it began.
   */
  private async look(
    polled: readonly PolledTask[],
  ): Promise<{ one: PolledTask; position: TaskPosition | undefined }[]> {
    const positions = await this.tasks.positions(polled.map(({ taskNo }) => taskNo));
    const less = [];
    for (const one of polled) {
      const position = positions.get(one.taskNo);
      if (!position || position.version < one.known) less.push({ one, position });
      else if (one.losses === one.task.losses) one.task.polled(position);
    }
    return less;
  }

  private lose({ taskNo, task, known, losses }: PolledTask, position: TaskPosition | undefined): void {
    if (!position) return task.gone();
    if (losses !== task.losses) return;
    this.logger.warn(
      `The database has lost commits: task number ${taskNo} was at version ${known}, and is at ${position.version}.`,
    );
    task.lost(position);
  }

  /** The next events from the database. A log that no longer has the next one is made up for by the task itself. */
  private async page(
    task: FollowedTask,
    taskNo: number,
    cursor: number,
    stop: AbortSignal,
  ): Promise<VersionedTaskEvent[]> {
    const read = (after: number): Promise<VersionedTaskEvent[]> => this.tasks.readEvents(taskNo, after, PAGE_EVENTS);
    const shared = await this.retried(() => task.read(cursor, read), stop);
    if (isDense(shared, cursor) && (shared.length > 0 || task.knownVersion <= cursor)) return shared;
    // Either the shared read was older than the news, or the log has been pruned: only a read from here on can tell.
    const events = await this.retried(() => read(cursor), stop);
    if (isDense(events, cursor) && events.length > 0) return events;
    const stored = await this.stored(taskNo, stop);
    if (stored.version <= cursor) return [];
    return levelingEvents(stored, cursor);
  }

  /** The task as it is. Throws TaskNotFoundError. */
  private async stored(taskNo: number, stop: AbortSignal): Promise<StoredTask> {
    const stored = await this.retried(() => this.tasks.findByNo(taskNo), stop);
    if (!stored) throw deleted();
    return stored;
  }

  /** A stream outlives passing trouble with the database: it tries again at each poll. */
  private async retried<T>(read: () => Promise<T>, stop: AbortSignal): Promise<T> {
    for (;;) {
      try {
        return await read();
      } catch (error) {
        if (stop.aborted || !isPassing(error)) throw error;
        await pause(this.poller.intervalMs, stop);
      }
    }
  }

  private enter(taskNo: number): FollowedTask {
    const task = this.followed.get(taskNo) ?? new FollowedTask();
    task.followers += 1;
    this.followed.set(taskNo, task);
    return task;
  }

  private leave(taskNo: number, task: FollowedTask): void {
    task.followers -= 1;
    if (task.followers === 0) this.followed.delete(taskNo);
  }
}

const deleted = (): Error => new TaskNotFoundError('The task was deleted while it was followed.');

/** A signal that aborts with either. Not AbortSignal.any: its sources keep every signal ever made of them. */
function either(...sources: AbortSignal[]): [AbortSignal, () => void] {
  const stop = new AbortController();
  const abort = (): void => stop.abort(STOPPED);
  for (const source of sources) {
    if (source.aborted) abort();
    source.addEventListener('abort', abort);
  }
  return [stop.signal, () => sources.forEach((source) => source.removeEventListener('abort', abort))];
}

const isDense = (events: readonly VersionedTaskEvent[], cursor: number): boolean =>
  events.every(({ version }, at) => version === cursor + 1 + at);

async function untilWakeup(task: FollowedTask, stop: AbortSignal): Promise<void> {
  const { done, cancel } = task.wait();
  stop.addEventListener('abort', cancel, { once: true });
  try {
    await done;
  } finally {
    stop.removeEventListener('abort', cancel);
  }
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      stop.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    stop.addEventListener('abort', done, { once: true });
  });
}
