import { AsyncLocalStorage } from 'node:async_hooks';
import { DatabaseTimeoutError } from '../../errors/database-timeout.error.js';
import { Batcher, type JointWork } from './batcher.js';

const BOUND_MS = 10_000;

type Together = JointWork<string, string>['together'];

const echo: Together = (items) => Promise.resolve(new Map(items.map((item, at) => [at, `${item} together`])));

/** A work that a test ends by hand, and everything that was asked of it. */
function workOf(together: Together = echo) {
  const alone: string[] = [];
  const groups: string[][] = [];
  const ends: (() => void)[] = [];
  return {
    alone,
    groups,
    /** Ends the works of items that went alone, the oldest first. */
    end: (): void => ends.splice(0).forEach((end) => end()),
    work: {
      alone: async (item: string): Promise<string> => {
        alone.push(item);
        if (item.startsWith('slow')) await new Promise<void>((resolve) => ends.push(resolve));
        if (item === 'bad') throw new Error('a defect');
        return `${item} alone`;
      },
      together: (items: readonly string[], timeoutMs: number) => {
        groups.push([...items]);
        return together(items, timeoutMs);
      },
    },
  };
}

describe('Batcher', () => {
  const LIMITS = { atOnce: 1, maxItems: 3 };

  it('does alone what comes alone, and together, in groups, what comes meanwhile', async () => {
    const { work, alone, groups, end } = workOf();
    const batcher = new Batcher(work, LIMITS);
    const answers = ['slow', 'b', 'c', 'd', 'e', 'f'].map((item) => batcher.ask(item, BOUND_MS));
    expect(alone).toEqual(['slow']);
    end();
    expect(await Promise.all(answers)).toEqual([
      'slow alone',
      ...['b', 'c', 'd', 'e', 'f'].map((it) => `${it} together`),
    ]);
    expect(groups).toEqual([
      ['b', 'c', 'd'],
      ['e', 'f'],
    ]);
    expect(await batcher.ask('g', BOUND_MS)).toBe('g alone');
  });

  it('does alone what the others’ work has no answer for', async () => {
    const { work, alone, end } = workOf((items) =>
      Promise.resolve(new Map(items.flatMap((item, at) => (item === 'left out' ? [] : [[at, item]])))),
    );
    const batcher = new Batcher(work, LIMITS);
    const answers = ['slow', 'b', 'left out'].map((item) => batcher.ask(item, BOUND_MS));
    end();
    expect(await Promise.all(answers)).toEqual(['slow alone', 'b', 'left out alone']);
    expect(alone).toEqual(['slow', 'left out']);
  });

  it('keeps the defect of one item from the others', async () => {
    const { work, end } = workOf(() => Promise.reject(new Error('a defect')));
    const batcher = new Batcher(work, LIMITS);
    const answers = ['slow', 'b', 'bad', 'c'].map((item) => batcher.ask(item, BOUND_MS).catch(String));
    end();
    expect(await Promise.all(answers)).toEqual(['slow alone', 'b alone', 'Error: a defect', 'c alone']);
  });

  it('adds nothing to a passing trouble: all are told, none is tried alone', async () => {
    const trouble = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    const { work, alone, end } = workOf(() => Promise.reject(trouble));
    const batcher = new Batcher(work, LIMITS);
    const answers = ['slow', 'b', 'c'].map((item) => batcher.ask(item, BOUND_MS).catch((error: unknown) => error));
    end();
    expect(await Promise.all(answers)).toEqual(['slow alone', trouble, trouble]);
    expect(alone).toEqual(['slow']);
  });

  it('does each alone where one of them stands before what somebody else holds', async () => {
    const { work, end } = workOf(() => Promise.reject(Object.assign(new Error('lock timeout'), { code: '55P03' })));
    const batcher = new Batcher(work, LIMITS);
    const answers = ['slow', 'b', 'c'].map((item) => batcher.ask(item, BOUND_MS));
    end();
    expect(await Promise.all(answers)).toEqual(['slow alone', 'b alone', 'c alone']);
  });

  it('lets a work that takes long hold up nobody', async () => {
    const { work, groups, end } = workOf();
    const batcher = new Batcher(work, LIMITS);
    const slow = batcher.ask('slow', BOUND_MS);
    expect(await Promise.all([batcher.ask('b', BOUND_MS), batcher.ask('c', BOUND_MS)])).toEqual([
      'b together',
      'c together',
    ]);
    expect(groups).toEqual([['b', 'c']]);
    end();
    expect(await slow).toBe('slow alone');
  });

  it('tells an item that waits at the end of its bound, and does it no more', async () => {
    const { work, groups, alone, end } = workOf();
    const batcher = new Batcher(work, LIMITS);
    const slow = batcher.ask('slow', BOUND_MS);
    const late = batcher.ask('late', 1);
    await expect(late).rejects.toEqual(new DatabaseTimeoutError(1));
    end();
    expect(await slow).toBe('slow alone');
    expect(await batcher.ask('c', BOUND_MS)).toBe('c alone');
    expect([groups, alone]).toEqual([[], ['slow', 'c']]);
  });

  it('tells an item whose group takes too long, whatever becomes of the group', async () => {
    let answer!: (answers: Map<number, string>) => void;
    const { work, alone, end } = workOf(() => new Promise((resolve) => (answer = resolve)));
    const batcher = new Batcher(work, LIMITS);
    const slow = batcher.ask('slow', BOUND_MS);
    const patient = batcher.ask('patient', BOUND_MS);
    const late = batcher.ask('late', 5);
    end();
    await expect(late).rejects.toEqual(new DatabaseTimeoutError(5));
    answer(new Map());
    expect(await Promise.all([slow, patient])).toEqual(['slow alone', 'patient alone']);
    expect(alone).toEqual(['slow', 'patient']);
  });

  it('does what waited while the process stood still: nobody could have answered it', async () => {
    const bounds: number[] = [];
    const { work, groups, alone, end } = workOf((items, timeoutMs) => {
      bounds.push(timeoutMs);
      return echo(items, timeoutMs);
    });
    const batcher = new Batcher(work, LIMITS);
    const slow = batcher.ask('slow', BOUND_MS);
    const late = ['b', 'c'].map((item) => batcher.ask(item, 5));
    const begun = performance.now();
    while (performance.now() < begun + 60); // no timer fires meanwhile
    end();
    expect(await Promise.all([slow, ...late])).toEqual(['slow alone', 'b together', 'c together']);
    expect([groups, alone, bounds]).toEqual([[['b', 'c']], ['slow'], [5]]);
  });

  it('does not begin alone with what is over once its group has failed', async () => {
    let fail!: (error: Error) => void;
    const { work, alone, end } = workOf(() => new Promise((_, reject) => (fail = reject)));
    const batcher = new Batcher(work, LIMITS);
    const slow = batcher.ask('slow', BOUND_MS);
    const late = ['b', 'c'].map((item) => batcher.ask(item, 5).catch((error: unknown) => error));
    end();
    expect(await Promise.all(late)).toEqual([new DatabaseTimeoutError(5), new DatabaseTimeoutError(5)]);
    fail(Object.assign(new Error('lock timeout'), { code: '55P03' }));
    expect(await slow).toBe('slow alone');
    expect(alone).toEqual(['slow']);
  });

  it('waits without a bound where there is none', async () => {
    const { work, end } = workOf();
    const batcher = new Batcher(work, LIMITS);
    const answers = ['slow', 'b', 'c'].map((item) => batcher.ask(item, Infinity));
    await new Promise((resolve) => setTimeout(resolve, 5));
    end();
    expect(await Promise.all(answers)).toEqual(['slow alone', 'b together', 'c together']);
  });

  it('gives a group the longest of its bounds', async () => {
    const bounds: number[] = [];
    const { work, end } = workOf((items, timeoutMs) => {
      bounds.push(timeoutMs);
      return echo(items, timeoutMs);
    });
    const batcher = new Batcher(work, LIMITS);
    const answers = [batcher.ask('slow', BOUND_MS), batcher.ask('b', 1_000), batcher.ask('c', BOUND_MS)];
    end();
    await Promise.all(answers);
    expect(bounds).toHaveLength(1);
    expect(bounds[0]).toBeGreaterThan(1_000);
    expect(bounds[0]).toBeLessThanOrEqual(BOUND_MS);
  });

  it('works together in nobody’s async context, whoever’s work made room', async () => {
    const caller = new AsyncLocalStorage<string>();
    const contexts: (string | undefined)[] = [];
    const { work, end } = workOf((items, timeoutMs) => {
      contexts.push(caller.getStore());
      return echo(items, timeoutMs);
    });
    const batcher = new Batcher(work, LIMITS);
    const answers = ['slow', 'b', 'c'].map((item) => caller.run(item, () => batcher.ask(item, BOUND_MS)));
    end();
    await Promise.all(answers);
    expect(contexts).toEqual([undefined]);
  });
});
