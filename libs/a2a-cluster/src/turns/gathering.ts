/**
 * Chunks that follow each other faster than this, in ms, are stored together: a commit costs as much as some ten of them.
 * Chunks at the pace of a model's tokens, and changes of state, do not wait. The first chunks of a stream wait less,
 * each commit up to twice as long as the one before it: their reader sees them soon, and a short stream is stored while it
 * is published.
 */
const GATHERING_MS = 10;
const FIRST_GATHERING_MS = 1;

/** If a commit still brings more chunks than this, nobody sees them one by one: they gather for longer. */
const FAST_GATHERING_MS = 20;
const MANY_CHUNKS = 10;

/** As many bytes of chunks are not waited for any longer. */
export const GATHERED_BYTES = 64 * 1024;

/** The pace of a turn's commits: how long what is queued may wait for more. */
export class Gathering {
  private sentAt = -Infinity;
  private waitMs = FIRST_GATHERING_MS;
  private urgent = false;
  private end: (() => void) | undefined;

  /** Undefined where what is queued is to go now; else resolves when to ask again. */
  wait(): Promise<void> | undefined {
    const leftMs = this.urgent ? 0 : this.sentAt + this.waitMs - performance.now();
    if (leftMs <= 0) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.ceil(leftMs));
      this.end = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** All that is queued goes now. */
  sent(chunks: number): void {
    const now = performance.now();
    const isSlow = now > this.sentAt + 2 * Math.max(this.waitMs, GATHERING_MS);
    const longestMs = chunks > MANY_CHUNKS ? FAST_GATHERING_MS : GATHERING_MS;
    this.waitMs = isSlow ? FIRST_GATHERING_MS : Math.min(2 * this.waitMs, longestMs);
    this.sentAt = now;
    this.urgent = false;
  }

  /** Nothing is queued any more. */
  idle(): void {
    this.urgent = false;
  }

  /** The queued events do not wait for more. */
  hurry(): void {
    this.urgent = true;
    this.end?.();
  }
}
