import { setTimeout as pause } from 'node:timers/promises';
import { within as withinMs } from '../harness/wait.js';
import { PATIENCE_MS } from './times.js';

/** How often a thing is looked at that nobody tells of. */
const LOOK_MS = 10;

/** What the demo says of itself did not hold. */
export class DemoFailure extends Error {
  override readonly name = 'DemoFailure';
}

/** @throws {DemoFailure} unless the condition holds. */
export function expect(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new DemoFailure(otherwise);
}

/** Waits for a thing, but not for ever. @throws {WaitTimeoutError} past the deadline. */
export function within<T>(what: string, promise: Promise<T>, ms = PATIENCE_MS): Promise<T> {
  return withinMs(promise, ms, what);
}

/** Looks until a thing is as wished, but not for ever. @throws {DemoFailure} past the deadline. */
export async function until<T>(
  what: string,
  look: () => Promise<T>,
  wish: (seen: T) => boolean,
  ms = PATIENCE_MS,
): Promise<T> {
  const deadline = performance.now() + ms;
  for (;;) {
    const seen = await look();
    if (wish(seen)) return seen;
    expect(performance.now() < deadline, `${what}: not within ${ms} ms; the last seen was ${JSON.stringify(seen)}`);
    await pause(LOOK_MS);
  }
}
