import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { Backoff } from './backoff.js';

/** How often it is tried while nothing can have been done. */
const MAX_TRIES = 3;

/**
 * Runs what can be repeated, since it finds by its ids what it has done before. Once it may have been done it is repeated
 * (`again`) until that is known, or until the given monotonic time; before that a few times while the store is unavailable.
 */
export async function untilKnown<T>(work: (again: boolean) => Promise<T>, giveUpAt: number): Promise<T> {
  const backoff = new Backoff();
  let mayBeDone = false;
  for (let tries = 1; ; tries += 1) {
    try {
      return await work(tries > 1);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      mayBeDone ||= error.mayBeDone;
      const again = mayBeDone ? performance.now() < giveUpAt : tries < MAX_TRIES;
      if (!again) throw error;
      await backoff.pause();
    }
  }
}
