import { describe as lineOf, FAULTS, scheduleOf, type ScheduleOptions } from '../faults/schedule.js';
import { Random } from '../random.js';

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

  it('plays the kinds that are asked for, and no other', () => {
    const kinds = scheduleOf({ ...HALF_AN_HOUR, faults: ['kill', 'clock'] }).map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(['kill', 'clock']));
    expect(() => scheduleOf({ ...HALF_AN_HOUR, faults: ['flood'] })).toThrow(/There is no fault flood: there are kill/);
  });

  it('lets faults of the network hit only replicas that are behind a proxy', () => {
    const hit = scheduleOf(HALF_AN_HOUR).filter(({ kind }) => kind.startsWith('network-'));
    expect(new Set(hit.map(({ replica }) => replica))).toEqual(new Set(['A', 'C']));
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
