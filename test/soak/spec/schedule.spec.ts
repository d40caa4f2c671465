import { type PlannedFault, queuesOf } from '../faults/fault.js';
import { describe as lineOf, faultOf, FAULTS, scheduleOf, type ScheduleOptions } from '../faults/schedule.js';
import { Random } from '../random.js';
import { TIMES } from '../times.js';

const HALF_AN_HOUR: ScheduleOptions = { seed: 1, seconds: 1_800, replicas: 4, pace: 1, faults: [] };

describe('the schedule of a chaos run', () => {
  it('is the same for the same seed, and another for another', () => {
    const first = scheduleOf(HALF_AN_HOUR).map(lineOf);
    expect(scheduleOf(HALF_AN_HOUR).map(lineOf)).toEqual(first);
    expect(scheduleOf({ ...HALF_AN_HOUR, seed: 2 }).map(lineOf)).not.toEqual(first);
  });

  it('begins in the same way, however long the run is', () => {
    const long = scheduleOf(HALF_AN_HOUR).map(lineOf);
    const short = scheduleOf({ ...HALF_AN_HOUR, seconds: 60 }).map(lineOf);
    expect(long.slice(0, short.length)).toEqual(short);
  });

  it.each([1, 2, 3])('has more than 300 faults of all kinds in half an hour of four replicas, seed %i', (seed) => {
    const schedule = scheduleOf({ ...HALF_AN_HOUR, seed });
    expect(schedule.length).toBeGreaterThan(300);
    expect(new Set(schedule.map(({ kind }) => kind))).toEqual(new Set(FAULTS.map(({ kind }) => kind)));
  });

  it.each([1, 2, 3, 11, 12, 13])('has each kind at least five times in that time, seed %i', (seed) => {
    const kinds = scheduleOf({ ...HALF_AN_HOUR, seed }).map(({ kind }) => kind);
    const rare = FAULTS.filter(({ kind }) => kinds.filter((it) => it === kind).length < 5);
    expect(rare.map(({ kind }) => kind)).toEqual([]);
  });

  it('plays the kinds that are asked for, and no other', () => {
    const kinds = scheduleOf({ ...HALF_AN_HOUR, faults: ['kill', 'clock'] }).map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(['kill', 'clock']));
    expect(() => scheduleOf({ ...HALF_AN_HOUR, faults: ['flood'] })).toThrow(/There is no fault flood: there are kill/);
  });

  it('lets faults of the network hit only replicas that are behind a proxy', () => {
    const hit = scheduleOf(HALF_AN_HOUR).filter(({ kind }) => kind.startsWith('network-'));
    expect(new Set(hit.map(({ replica }) => replica))).toEqual(new Set(['A', 'C']));
  });

  it('names no replica for a fault of the database, but for one that stops a replica meanwhile', () => {
    const ofDatabase = scheduleOf(HALF_AN_HOUR).filter(({ kind }) => kind.startsWith('database-'));
    const named = ofDatabase.filter(({ replica }) => replica !== undefined);
    expect(new Set(named.map(({ kind }) => kind))).toEqual(new Set(['database-stall-terminate']));
  });

  it('locks tables for less and for more than the TTL, and stalls for longer than every time-out', () => {
    const lasting = (wanted: string) => {
      const planned = scheduleOf(HALF_AN_HOUR).filter(({ kind }) => kind === wanted);
      return planned.map(({ forMs }) => forMs);
    };
    const locked = lasting('database-locks');
    expect(Math.min(...locked)).toBeLessThan(TIMES.ttl);
    expect(Math.max(...locked)).toBeGreaterThan(TIMES.ttl);
    // The longest one is the sample's, for a connection.
    expect(Math.min(...lasting('database-stall'))).toBeGreaterThan(5_000);
  });

  it('limits the role of the replicas in time by every setting, and in sessions that are kept or ended', () => {
    const limits = [1, 2, 3].flatMap((seed) => scheduleOf({ ...HALF_AN_HOUR, seed, faults: ['database-limits'] }));
    const settings = limits.map(({ form }) => form.replace(/ \d+( %)?/, ''));
    expect([...new Set(settings)].sort()).toEqual([
      'idle_in_transaction_session_timeout',
      'idle_session_timeout',
      'lock_timeout',
      'sessions ended',
      'sessions kept',
      'statement_timeout',
      'transaction_timeout',
    ]);
  });
});

describe('the queues of faults', () => {
  const planned = (kind: string, replica?: string): PlannedFault => ({
    number: 7,
    atMs: 0,
    kind,
    replica,
    forMs: 0,
    form: '',
  });
  const queues = (kind: string, replica?: string) => queuesOf(faultOf(kind), planned(kind, replica));

  it('let those of the database wait for each other, and those of one replica', () => {
    for (const { kind } of FAULTS.filter(({ hits }) => hits === 'database')) expect(queues(kind)).toEqual(['database']);
    expect(queues('kill', 'B')).toEqual(['B']);
    expect(queues('network-cut', 'A')).toEqual(['A']);
    expect(queues('slow-subscriber', 'A')).toEqual(['clients 7']);
  });

  it('let one that stops a replica while the database stands still wait for both', () => {
    expect(queues('database-stall-terminate', 'C')).toEqual(['database', 'C']);
  });
});

describe('Random', () => {
  it('draws evenly, and by weight', () => {
    const random = new Random(7);
    const drawn = Array.from({ length: 10_000 }, () => random.between(1, 4));
    for (const number of [1, 2, 3, 4]) expect(drawn.filter((it) => it === number).length).toBeGreaterThan(2_300);
    const [light, heavy] = [{ weight: 1 }, { weight: 9 }];
    const weighed = Array.from({ length: 10_000 }, () => random.weighted([light, heavy]));
    expect(weighed.filter((it) => it === light).length).toBeGreaterThan(850);
    expect(weighed.filter((it) => it === light).length).toBeLessThan(1_150);
  });
});
