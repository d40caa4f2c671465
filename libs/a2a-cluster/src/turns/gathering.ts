/**
 * Chunks that follow each other faster than this, in ms, are stored together: a commit costs as much as some ten of them.
 * What comes at the pace of a model's tokens, or changes a state, waits for nothing.
 */
const GATHERING_MS = 10;

/** As many bytes of chunks are not waited for any longer. */
export const GATHERED_BYTES = 64 * 1024;

/** The pace of a turn's commits: how long what is queued may wait for more. */
export class Gathering {
  private sentAt = -Infinity;
  private urgent = false;
  private end: (() => void) | undefined;

  /** Undefined where what is queued is to go now; else resolves when to ask again. */
  wait(): Promise<void> | undefined {
    const waitMs = this.urgent ? 0 : this.sentAt + GATHERING_MS - performance.now();
    if (waitMs <= 0) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.ceil(waitMs));
      this.end = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** All that is queued goes now. */
  sent(): void {
    this.sentAt = performance.now();
    this.urgent = false;
  }

  /** Nothing is queued any more. */
  idle(): void {
    this.urgent = false;
  }

  /** What is queued is not to wait for more. */
  hurry(): void {
    this.urgent = true;
    this.end?.();
  }
}
