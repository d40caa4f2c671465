/** How much a load reads of a task, in characters of JSON. */
export interface StoredLength {
  snapshot: number;
  /** The events behind the snapshot. */
  tail: number;
}

/** A snapshot is renewed once the log behind it is as long as it is, and not before this: so n events cost O(n). */
const MIN_TAIL = 64 * 1024;

/**
 * Whoever has just renewed it does so again no sooner than this, in ms, or once the log behind it is so many characters
 * long: a fast stream would write its task again and again for the few who look at it meanwhile. The second bound is what
 * such a look may have to read.
 */
const MIN_INTERVAL_MS = 1_000;
const MAX_HURRIED_TAIL = 256 * 1024;

/** Decides when the snapshot of a task is renewed: writing it costs, and so does a long log behind it. */
export class SnapshotPace {
  private takenAt = -Infinity;

  /** @param length of the task as it is found, and then after each commit */
  constructor(public length: StoredLength = { snapshot: 0, tail: 0 }) {}

  /** The snapshot that a commit of so many characters of events brings: where it has to, or where it is time. */
  next(chars: number, encode: () => string, always = false): string | undefined {
    const tail = this.length.tail + chars;
    if (!always && !this.isDue(tail)) {
      this.length = { ...this.length, tail };
      return undefined;
    }
    const snapshot = encode();
    this.length = { snapshot: snapshot.length, tail: 0 };
    this.takenAt = performance.now();
    return snapshot;
  }

  private isDue(tail: number): boolean {
    if (tail < Math.max(MIN_TAIL, this.length.snapshot)) return false;
    return tail >= MAX_HURRIED_TAIL || performance.now() - this.takenAt >= MIN_INTERVAL_MS;
  }
}
