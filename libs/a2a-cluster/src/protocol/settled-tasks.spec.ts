import { TaskState } from '@a2a-js/sdk';
import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import { optionsWith } from '../../../../test/helpers/options.js';
import { Deferred } from '../async/deferred.js';
import { DatabaseTimeoutError } from '../errors/database-timeout.error.js';
import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import type { LeasedTaskStore } from '../tasks/leased-task-store.js';
import type { LargeTask } from '../tasks/task-store.js';
import { SettledTasks } from './settled-tasks.js';

const working = { version: 2, waiting: false, state: TaskState.TASK_STATE_WORKING } as LargeTask;
const ended = { version: 3, waiting: false, state: TaskState.TASK_STATE_COMPLETED } as LargeTask;

describe('Settled tasks', () => {
  /** What the database knows of the task. */
  let position: LargeTask | undefined;
  let looks: number;
  let follows: number;
  let event: Deferred<void>;
  let settled: SettledTasks;

  beforeEach(() => {
    position = working;
    looks = 0;
    follows = 0;
    event = new Deferred();
    const tasks = {
      findUpTo: () => {
        looks += 1;
        return Promise.resolve(position);
      },
    } as unknown as LeasedTaskStore;
    const stream = {
      closed: new AbortController().signal,
      async *batches(_taskNo: number, _version: number, signal: AbortSignal) {
        follows += 1;
        const stopped = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        await Promise.race([event.promise, stopped]);
        yield* [];
      },
    } as unknown as TaskEventStream;
    settled = new SettledTasks(tasks, stream, optionsWith({ streams: { pollIntervalMs: 2_147_483_647 } }));
  });

  it('A3 many who wait for one task share one look and one follower', async () => {
    const waiting = Array.from({ length: 100 }, () => settled.wait(1, new AbortController().signal));
    await new Promise(setImmediate);
    expect([looks, follows]).toEqual([1, 1]);
    position = ended;
    event.resolve();
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([ended]));
    expect([looks, follows]).toEqual([2, 1]);
  });

  it('A3 nobody looks any more once the last one is gone', async () => {
    const clients = [new AbortController(), new AbortController()];
    const waiting = clients.map(({ signal }) => settled.wait(1, signal));
    await new Promise(setImmediate);
    clients[0]!.abort();
    expect(await waiting[0]).toBeUndefined();
    expect([looks, follows]).toEqual([1, 1]);
    clients[1]!.abort();
    expect(await waiting[1]).toBeUndefined();
    event.resolve();
    await new Promise(setImmediate);
    expect([looks, follows]).toEqual([1, 1]);
  });

  it('A3 who comes after that begins a look of its own', async () => {
    const first = new AbortController();
    const left = settled.wait(1, first.signal);
    first.abort();
    await left;
    position = ended;
    expect(await settled.wait(1, new AbortController().signal)).toBe(ended);
  });

  it('I5 events that cannot be read, or a database that is away, end no wait', async () => {
    const tasks = {
      findUpTo: () => {
        looks += 1;
        if (looks === 2) return Promise.reject(new StoreUnavailableError('away'));
        return Promise.resolve(position);
      },
    } as unknown as LeasedTaskStore;
    const stream = {
      closed: new AbortController().signal,
      async *batches() {
        await Promise.resolve();
        position = ended;
        throw new DatabaseTimeoutError(1);
      },
    } as unknown as TaskEventStream;
    const here = new SettledTasks(tasks, stream, optionsWith({ streams: { pollIntervalMs: 1 } }));
    expect(await here.wait(1, new AbortController().signal)).toBe(ended);
    expect(looks).toBe(3);
  });

  it('a task that is deleted is told to all', async () => {
    position = undefined;
    const never = new AbortController().signal;
    const outcomes = await Promise.allSettled([settled.wait(1, never), settled.wait(1, never)]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(TaskNotFoundError) as Error });
    }
  });
});
