import { whileUnavailable } from './while-unavailable.js';

/** How often it is tried while nothing can have been done. */
const MAX_TRIES = 3;

/**
 * Runs a work that may be repeated: it finds by its ids whether it was done before. Once it may have been done, it is
 * repeated (`again`) until that is known, or until the given monotonic time. Before that it is tried a few times while the
 * store is unavailable.
 */
export function untilKnown<T>(work: (again: boolean) => Promise<T>, giveUpAt: number): Promise<T> {
  let mayBeDone = false;
  return whileUnavailable(
    (tries) => work(tries > 1),
    (error, tries) => {
      mayBeDone ||= error.mayBeDone;
      return mayBeDone ? performance.now() < giveUpAt : tries < MAX_TRIES;
    },
  );
}
