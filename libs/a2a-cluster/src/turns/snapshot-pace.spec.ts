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

  /** Commits so much, a kB at a time and so many ms apart; returns how long the tail was when each snapshot was due. */
  function commits(pace: SnapshotPace, kilobytes: number, apartMs: number, snapshotShare = 0): number[] {
    const tails: number[] = [];
    let tail = 0;
    for (let committed = 1; committed <= kilobytes; committed += 1) {
      jest.advanceTimersByTime(apartMs);
      tail += 1;
      if (pace.isDue(KB)) {
        pace.taken('x'.repeat(snapshotShare * committed * KB), KB);
        tails.push(tail);
        tail = 0;
      } else {
        pace.skipped(KB);
      }
    }
    return tails;
  }

  it('is renewed each 64 kB where that takes a second', () => {
    expect(commits(new SnapshotPace(), 300, 20)).toEqual([64, 64, 64, 64]);
  });

  it('waits for a second where 64 kB take less', () => {
    expect(commits(new SnapshotPace(), 300, 10)).toEqual([100, 100, 100]);
  });

  it('waits for no more than 256 kB', () => {
    expect(commits(new SnapshotPace(), 1_000, 0)).toEqual([256, 256, 256]);
  });

  it('waits for as much as it has itself, however slowly that comes', () => {
    expect(commits(new SnapshotPace(), 1_000, 60_000, 1)).toEqual([64, 64, 128, 256]);
    expect(commits(new SnapshotPace(), 2_500, 0, 1)).toEqual([256, 256, 512, 1024]);
  });

  it('waits for as much as the single event that brought it', () => {
    const pace = new SnapshotPace();
    expect(pace.isDue(700 * KB)).toBe(true);
    pace.taken('', 700 * KB);
    expect(commits(pace, 750, 60_000)).toEqual([700]);
  });
});
