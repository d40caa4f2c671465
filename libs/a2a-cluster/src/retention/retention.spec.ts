import { jest } from '@jest/globals';
import type { EffectStore } from '../effects/effect-store.js';
import type { LeaseStore } from '../leases/lease-store.js';
import type { Poller } from '../streams/poller.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import type { ResolvedOptions } from '../options/cluster.options.js';
import { Retention } from './retention.js';

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

  /** How long each thing is kept, in ms; by default for ever. */
  interface KeptMs {
    events?: number;
    receipts?: number;
    effects?: number;
    tasks?: number;
  }

  const start = (kept: KeptMs): void => {
    const tasks = {
      pruneEvents: pruner('events'),
      pruneReceipts: pruner('receipts'),
      pruneTasks: pruner('tasks'),
    } as unknown as VersionedTaskStore;
    const effects = { prune: pruner('effects') } as unknown as EffectStore;
    const leases = { prune: pruner('replicas') } as unknown as LeaseStore;
    const poller = { register: (job: () => Promise<void>) => void jobs.push(job) } as Poller;
    const { events = Infinity, receipts = 0, effects: effectsMs = Infinity, tasks: tasksMs = Infinity } = kept;
    const options = {
      streams: { retentionMs: events },
      turns: { messageIdWindowMs: receipts },
      retention: { effectsMs, tasksMs },
    } as ResolvedOptions;
    new Retention(tasks, effects, leases, poller, options);
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
    start({ events: 100, receipts: 200, effects: HOUR_MS, tasks: 100 * HOUR_MS });
    expect(await poll(9)).toEqual([]);
    expect(await poll(1)).toEqual(['events 100']);
    expect(await poll(10)).toEqual(['events 100', 'receipts 200']);
    expect(await poll(MINUTE_MS)).toEqual([
      'events 100',
      'receipts 200',
      'effects 3600000',
      'tasks 360000000',
      'replicas 86400000',
    ]);
    expect(await poll(1)).toEqual([]);
  });

  it('leaves alone what is kept for ever', async () => {
    start({});
    const replicas = `replicas ${24 * HOUR_MS}`;
    expect(await poll(HOUR_MS)).toEqual([replicas]);
    jobs.length = 0;
    start({ tasks: HOUR_MS });
    expect(await poll(HOUR_MS)).toEqual(['tasks 3600000', replicas]);
  });

  it('goes on at the next poll while there is more to do', async () => {
    start({ events: 1_000 });
    rows.events = 2_500;
    expect([await poll(100), await poll(0), await poll(0), await poll(0)].map(({ length }) => length)).toEqual([
      1, 1, 1, 0,
    ]);
    expect(rows.events).toBe(0);
  });
});
