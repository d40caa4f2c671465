import { jest } from '@jest/globals';
import type { EffectStore } from '../effects/effect-store.js';
import type { LeaseStore } from '../leases/lease-store.js';
import { Poller } from '../streams/poller.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import { Retention, type RetentionTimes } from './retention.js';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

describe('Retention', () => {
  let now = 0;
  const jobs: (() => Promise<void>)[] = [];
  const pruned: string[] = [];
  /** How many rows there are to prune. */
  const rows: Record<string, number> = {};

  const pruner = (what: string) => (olderThanMs: number, limit: number) => {
    pruned.push(`${what} ${olderThanMs}`);
    const batch = Math.min(limit, rows[what] ?? 0);
    rows[what] = (rows[what] ?? 0) - batch;
    return Promise.resolve(batch);
  };

  const start = (times: Partial<RetentionTimes>): void => {
    const tasks = {
      pruneEvents: pruner('events'),
      pruneReceipts: pruner('receipts'),
      pruneTasks: pruner('tasks'),
    } as unknown as VersionedTaskStore;
    const effects = { prune: pruner('effects') } as unknown as EffectStore;
    const leases = { prune: pruner('replicas') } as unknown as LeaseStore;
    const poller = new Poller(1);
    jest.spyOn(poller, 'register').mockImplementation((job) => void jobs.push(job));
    const never = { eventsMs: Infinity, receiptsMs: 0, effectsMs: Infinity, tasksMs: Infinity, replicasMs: Infinity };
    new Retention(tasks, effects, leases, poller, { ...never, ...times });
  };

  const poll = async (ms: number): Promise<string[]> => {
    now += ms;
    pruned.length = 0;
    for (const job of jobs) await job();
    return [...pruned];
  };

  beforeEach(() => {
    jobs.length = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
  });

  afterEach(() => jest.restoreAllMocks());

  it('prunes each thing by its own time, now and then', async () => {
    start({ eventsMs: 100, receiptsMs: 200, effectsMs: HOUR_MS, tasksMs: 100 * HOUR_MS });
    expect(await poll(9)).toEqual([]);
    expect(await poll(1)).toEqual(['events 100']);
    expect(await poll(10)).toEqual(['events 100', 'receipts 200']);
    expect(await poll(MINUTE_MS)).toEqual(['events 100', 'receipts 200', 'effects 3600000', 'tasks 360000000']);
    expect(await poll(1)).toEqual([]);
  });

  it('leaves alone what is kept for ever', async () => {
    start({});
    expect(jobs).toEqual([]);
    start({ tasksMs: HOUR_MS });
    expect(await poll(HOUR_MS)).toEqual(['tasks 3600000']);
  });

  it('goes on at the next poll while there is more to do', async () => {
    start({ eventsMs: 1_000 });
    rows.events = 2_500;
    expect([await poll(100), await poll(0), await poll(0), await poll(0)].map(({ length }) => length)).toEqual([
      ...[1, 1, 1, 0],
    ]);
    expect(rows.events).toBe(0);
  });
});
