import { pause } from './pause.js';

const FIRST_BACKOFF_MS = 20;
const MAX_BACKOFF_MS = 1_000;

/**
 * Pauses that grow. Each doubles, and jitter shortens it by up to half: those who failed together do not meet again.
 */
export class Backoff {
  private nextMs = FIRST_BACKOFF_MS;

  /** `maxMs`: the longest pause. */
  constructor(private readonly maxMs = MAX_BACKOFF_MS) {}

  async pause(): Promise<void> {
    await pause(this.nextMs * (0.5 + Math.random() / 2));
    this.nextMs = Math.min(this.nextMs * 2, this.maxMs);
  }
}
