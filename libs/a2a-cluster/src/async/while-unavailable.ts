import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { Backoff } from './backoff.js';

/**
 * Repeats work, with growing pauses, for as long as it throws {@link StoreUnavailableError} and `goesOn` agrees. Every
 * other error is thrown at once, and the last StoreUnavailableError once it does not agree any more.
 * @param work gets the number of the try, from 1
 */
export async function whileUnavailable<T>(
  work: (tries: number) => Promise<T>,
  goesOn: (error: StoreUnavailableError, tries: number) => boolean | Promise<boolean>,
): Promise<T> {
  const backoff = new Backoff();
  for (let tries = 1; ; tries += 1) {
    try {
      return await work(tries);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError) || !(await goesOn(error, tries))) throw error;
      await backoff.pause();
    }
  }
}
