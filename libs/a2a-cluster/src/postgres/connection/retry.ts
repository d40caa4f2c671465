import { CommitOutcomeUnknownError } from '../../errors/commit-outcome-unknown.error.js';
import { DatabaseTimeoutError } from '../../errors/database-timeout.error.js';
import { isPassing } from './database-errors.js';

const FIRST_BACKOFF_MS = 20;
const MAX_BACKOFF_MS = 1_000;
/** How often passing trouble is tried again where nothing can have been done. */
const MAX_TRIES = 3;

/** Pauses that grow, each up to a half shorter than the last one's double: those who failed together do not meet again. */
export class Backoff {
  private nextMs = FIRST_BACKOFF_MS;

  async pause(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, this.nextMs * (0.5 + Math.random() / 2)));
    this.nextMs = Math.min(this.nextMs * 2, MAX_BACKOFF_MS);
  }
}

/**
 * Runs a transaction that can be repeated, since it finds by its ids what it has done before. Once its outcome is
 * unknown it is repeated (`again`) until that is known, or until the given monotonic time; other passing trouble a few times.
 */
export async function untilKnown<T>(work: (again: boolean) => Promise<T>, giveUpAt: number): Promise<T> {
  const backoff = new Backoff();
  let unknown = false;
  for (let tries = 1; ; tries += 1) {
    try {
      return await work(tries > 1);
    } catch (error) {
      unknown ||= error instanceof CommitOutcomeUnknownError || error instanceof DatabaseTimeoutError;
      const again = unknown ? performance.now() < giveUpAt : tries < MAX_TRIES;
      if (!again || !isPassing(error)) throw error;
      await backoff.pause();
    }
  }
}
