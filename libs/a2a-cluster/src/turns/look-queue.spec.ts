import { LookQueue } from './look-queue.js';

const never = new AbortController().signal;

describe('A queue of those who look', () => {
  it('A3 lets one look at a time, in the order in which they came', async () => {
    const queue = new LookQueue();
    const [a, b, c] = [queue.enter('task'), queue.enter('task'), queue.enter('task')] as const;
    expect([a, b, c].map(({ isFirst }) => isFirst)).toEqual([true, false, false]);
    const reached: string[] = [];
    void b.reached(never).then(() => reached.push('b'));
    void c.reached(never).then(() => reached.push('c'));
    await new Promise(setImmediate);
    expect(reached).toEqual([]);
    a.leave();
    await new Promise(setImmediate);
    expect(reached).toEqual(['b']);
    b.leave();
    b.leave();
    expect(await c.reached(never)).toBe(true);
    expect(c.isFirst).toBe(true);
  });

  it('is left in the middle by those who wait no longer', async () => {
    const queue = new LookQueue();
    const [a, b, c] = [queue.enter('task'), queue.enter('task'), queue.enter('task')] as const;
    const gone = new AbortController();
    const waiting = b.reached(gone.signal);
    gone.abort();
    expect(await waiting).toBe(false);
    b.leave();
    a.leave();
    expect(await c.reached(never)).toBe(true);
  });

  it('is one for each task', () => {
    const queue = new LookQueue();
    expect(queue.enter('one').isFirst).toBe(true);
    expect(queue.enter('other').isFirst).toBe(true);
  });
});
