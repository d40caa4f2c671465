import { boundedBy, within } from './late-timer.js';

/** The event loop stands still, as in an agent that computes, or in a process that is frozen. */
function standStill(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe('A time-out', () => {
  it('B.8 an answer that has arrived while the event loop stood still is read before the verdict', async () => {
    let expired = false;
    const bound = boundedBy(5, () => (expired = true));
    standStill(20);
    // The sockets are read after the timers have fired, in the same turn of the event loop.
    await new Promise<void>((resolve) => setImmediate(resolve));
    bound.clear();
    await new Promise<void>((resolve) => setTimeout(resolve, 10));
    expect(expired).toBe(false);
  });

  it('B.8 a call that the process could not wait for gets its time once more, a second at most', async () => {
    const begun = performance.now();
    const expired = new Promise<number>((resolve) => boundedBy(30, () => resolve(performance.now())));
    standStill(150);
    expect((await expired) - begun).toBeGreaterThanOrEqual(179);
  });

  it('comes when its time is over, and once', async () => {
    let times = 0;
    await new Promise<void>((resolve) =>
      boundedBy(1, () => {
        times += 1;
        resolve();
      }),
    );
    expect(times).toBe(1);
  });

  it('does not come where there is none', async () => {
    const bound = boundedBy(Infinity, () => {
      throw new Error('expired');
    });
    await new Promise<void>((resolve) => setImmediate(resolve));
    bound.clear();
  });

  it('tells what came in time from what did not', async () => {
    expect(await within(60_000, Promise.resolve())).toBe(true);
    expect(await within(1, new Promise(() => undefined))).toBe(false);
  });
});
