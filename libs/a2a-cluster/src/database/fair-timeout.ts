/** A timer that fires later than this was kept waiting: the event loop was blocked, or the process stood still. In ms. */
const LATE_MS = 50;
/** How much longer is waited then, in ms at most: what was to be sent in that time has only now been sent. */
const MAX_GRACE_MS = 1_000;

/**
 * Calls back once `timeoutMs` have passed and all that had arrived by then was read. Timers run before sockets: after a
 * blocked event loop the answer may lie there unread when its time-out fires. `Infinity`: never. Returns what calls it off.
 */
export function afterFairly(timeoutMs: number, expired: () => void): () => void {
  if (!Number.isFinite(timeoutMs)) return () => undefined;
  const bound = Math.max(0, timeoutMs);
  const due = performance.now() + bound;
  let reading: NodeJS.Immediate | undefined;
  let timer = setTimeout(() => {
    // Sockets are read between timers and immediates.
    if (performance.now() - due <= LATE_MS) reading = setImmediate(expired);
    else timer = setTimeout(() => (reading = setImmediate(expired)), Math.min(bound, MAX_GRACE_MS));
  }, bound);
  return () => {
    clearTimeout(timer);
    if (reading) clearImmediate(reading);
  };
}
