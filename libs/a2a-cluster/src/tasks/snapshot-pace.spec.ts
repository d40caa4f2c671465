import { jest } from '@jest/globals';
import { SnapshotPace } from './snapshot-pace.js';

const KB = 1024;

describe('The snapshot of a growing task', () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });

  afterEach(() => {
    jest.useRealTimers();
  });

  /** Of a new task, whose first commit brings one. */
  function begun(): SnapshotPace {
    const pace = new SnapshotPace();
    pace.next(KB, () => '', true);
    return pace;
  }

  /** Commits so much, a kB at a time and so many ms apart; returns how long the tail was when each snapshot was due. */
  function commits(pace: SnapshotPace, kilobytes: number, apartMs: number, snapshotShare = 0): number[] {
    const tails: number[] = [];
    let tail = 0;
    for (let committed = 1; committed <= kilobytes; committed += 1) {
      jest.advanceTimersByTime(apartMs);
      tail += 1;
      const snapshot = pace.next(KB, () => 'x'.repeat(snapshotShare * committed * KB));
      if (snapshot === undefined) continue;
      tails.push(tail);
      tail = 0;
    }
    return tails;
  }

  it('is renewed each 64 kB where that takes a second', () => {
    expect(commits(begun(), 300, 20)).toEqual([64, 64, 64, 64]);
  });

  it('waits for a second where 64 kB take less', () => {
    expect(commits(begun(), 300, 10)).toEqual([100, 100, 100]);
  });

  it('waits for no more than 256 kB', () => {
    expect(commits(begun(), 1_000, 0)).toEqual([256, 256, 256]);
  });

  it('is not put off by a turn that finds a long log behind it', () => {
    expect(commits(new SnapshotPace({ snapshot: 10 * KB, tail: 63 * KB }), 300, 0)).toEqual([1, 256]);
    expect(commits(new SnapshotPace({ snapshot: 300 * KB, tail: 200 * KB }), 300, 0)).toEqual([100]);
  });

  it('leaves the length that it is given to those who gave it', () => {
    const found = { snapshot: 10 * KB, tail: 0 };
    commits(new SnapshotPace(found), 100, 0);
    expect(found).toEqual({ snapshot: 10 * KB, tail: 0 });
  });

  it('waits for as much as it has itself, however slowly that comes', () => {
    expect(commits(begun(), 1_000, 60_000, 1)).toEqual([64, 64, 128, 256]);
    expect(commits(begun(), 2_500, 0, 1)).toEqual([256, 256, 512, 1024]);
  });

  it('does not wait for as much as made it, where that left a short task', () => {
    const pace = begun();
    expect(pace.next(5_000 * KB, () => 'x'.repeat(90 * KB))).toHaveLength(90 * KB);
    expect(commits(pace, 100, 60_000)).toEqual([90]);
  });
});
