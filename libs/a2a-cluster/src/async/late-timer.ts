/** A timer that fires so much later than it was set for, in ms, tells that the event loop stood still. */
const LATE_MS = 50;

/** Whether a timer that was set for this monotonic time, and fires now, tells that the process stood still. */
export const isLate = (due: number): boolean => performance.now() - due > LATE_MS;

/** The extra time of a call, in ms, if this process stood still while the call was under way. */
const GRACE_MS = 1_000;

/** A time-out that is still to come. */
export interface Bound {
  /** The call is over: there is no time-out any more. */
  clear(): void;
}

/**
 * Resolves when the sockets have been read. In a turn of the event loop timers fire before that. So after a blocked loop
 * or a frozen process an answer may lie in its socket while the time-out of its call fires. The second turn reads answers
 * of which the first one has read a part.
 */
export const socketsRead = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(() => setImmediate(resolve));
  });

/**
 * Calls `expired` once `ms` have passed and the sockets have been read. If the process stood still meanwhile, the call
 * gets one second more, once: no answer could reach it before. `Infinity`: never.
 */
export function boundedBy(ms: number, expired: () => void): Bound {
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  const wait = (forMs: number, last: boolean): void => {
    const due = performance.now() + forMs;
    timer = setTimeout(() => {
      const wasLate = isLate(due);
      void socketsRead().then(() => {
        if (over) return;
        if (wasLate && !last) return wait(Math.min(ms, GRACE_MS), true);
        over = true;
        expired();
      });
    }, forMs);
  };
  if (Number.isFinite(ms)) wait(Math.max(0, ms), false);
  return {
    clear: () => {
      over = true;
      clearTimeout(timer);
    },
  };
}

/** Waits for what never fails, or until `ms` have passed. Whether it came in time. */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
