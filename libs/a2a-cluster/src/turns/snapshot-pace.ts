/** A snapshot is renewed once the log behind it is as long as it is, and not before this many bytes. */
const MIN_TAIL_BYTES = 64 * 1024;

/**
 * Nor is it sooner than this after the last one, in ms, unless the log is that long: a fast stream would write its task
 * again and again, and will be over before many have looked at it. The bound is what a look may have to read.
 */
const MIN_INTERVAL_MS = 1_000;
const MAX_HURRIED_BYTES = 256 * 1024;

/** When the snapshot of a growing task is renewed: what it costs to write is weighed against what a load has to read. */
export class SnapshotPace {
  private tailBytes = 0;
  private snapshotBytes = 0;
  private takenAt = performance.now();

  /** Whether a commit of so many bytes of events is to bring a new one. */
  isDue(bytes: number): boolean {
    const tailBytes = this.tailBytes + bytes;
    if (tailBytes < Math.max(MIN_TAIL_BYTES, this.snapshotBytes)) return false;
    return tailBytes >= MAX_HURRIED_BYTES || performance.now() - this.takenAt >= MIN_INTERVAL_MS;
  }

  /** A commit brings none. */
  skipped(bytes: number): void {
    this.tailBytes += bytes;
  }

  /** A commit brings one. A single event may be larger than what it leaves of the task. */
  taken(snapshot: string, bytes: number): void {
    this.snapshotBytes = Math.max(snapshot.length, bytes);
    this.tailBytes = 0;
    this.takenAt = performance.now();
  }
}
