import { hasOutgrown, type StoredLength } from '../tasks/stored-length.js';

/**
 * A turn renews its task's snapshot no sooner than this after it last did, in ms, or once the log behind it is so many
 * characters long: a fast stream would write its task again and again for the few who look at it meanwhile. The second
 * bound is what such a look may have to read.
 */
const MIN_INTERVAL_MS = 1_000;
const MAX_HURRIED_TAIL = 256 * 1024;

/** When a turn renews the snapshot of its task: what it costs to write is weighed against what a load has to read. */
export class SnapshotPace {
  private readonly length: StoredLength;
  private takenAt = -Infinity;

  /** @param found the length of the task as the turn finds it */
  constructor(found: StoredLength = { snapshot: 0, tail: 0 }) {
    this.length = { ...found };
  }

  /** Whether a commit of so many characters of events is to bring a new one. */
  isDue(chars: number): boolean {
    const tail = this.length.tail + chars;
    if (!hasOutgrown({ ...this.length, tail })) return false;
    return tail >= MAX_HURRIED_TAIL || performance.now() - this.takenAt >= MIN_INTERVAL_MS;
  }

  /** A commit brings none. */
  skipped(chars: number): void {
    this.length.tail += chars;
  }

  /** A commit brings one. */
  taken(snapshot: string): void {
    this.length.snapshot = snapshot.length;
    this.length.tail = 0;
    this.takenAt = performance.now();
  }
}
