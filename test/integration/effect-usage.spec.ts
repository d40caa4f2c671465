import { jest } from '@jest/globals';
import type { EffectContract } from '../../libs/a2a-cluster/src/effects/turn-effects.js';
import { EffectResultError } from '../../libs/a2a-cluster/src/errors/effect-result.error.js';
import { EffectUnresolvedError } from '../../libs/a2a-cluster/src/errors/effect-unresolved.error.js';
import { TurnUsageError } from '../../libs/a2a-cluster/src/errors/turn-usage.error.js';
import { Deferred } from '../../tools/harness/wait.js';
import { useCluster } from './cluster.fixture.js';
import { effectRows, errorOf } from './effects.fixture.js';

const NEVER = { replay: 'never' } as const;

const action = () => jest.fn(() => Promise.resolve('done'));

class Receipt {
  readonly id = 7;
}

const cycle: { name: string; self?: unknown } = { name: 'cycle' };
cycle.self = { again: [cycle] };

describe('What executors get wrong with outside actions', () => {
  const cluster = useCluster();

  const badKeys: [string, unknown, string][] = [
    ['empty', '', "''"],
    ['201 characters', 'k'.repeat(201), 'kkk'],
    ['NUL', 'a\0b', "'a\\x00b'"],
    ['half a character', 'a\ud800', 'half a surrogate pair'],
    ['undefined', undefined, 'undefined'],
    ['null', null, 'null'],
    ['a number', 7, '7'],
    ['a bigint', 7n, '7n'],
    ['a symbol', Symbol('charge'), 'Symbol(charge)'],
    ['a function', () => 'charge', '[Function'],
    ['an object', { key: 'charge' }, "{ key: 'charge' }"],
    ['a cycle', cycle, 'cycle'],
  ];

  it.each(badKeys)(
    'a key that is %s is refused, by value and rule, and nothing is recorded',
    async (_n, key, shown) => {
      const { turn, taskNo } = await (await cluster.replica()).working();
      const run = action();
      for (const outcome of [
        turn.effect(key as string, NEVER, run),
        ...(key === undefined ? [] : [turn.transaction(run, { key: key as string })]),
      ]) {
        const error = await errorOf(outcome);
        expect(error).toBeInstanceOf(TurnUsageError);
        expect(error.message).toContain(shown);
        expect(error.message).toContain('it must be text of 1 to 200 characters without NUL');
        expect(error.message.length).toBeLessThan(400);
      }
      expect(run).not.toHaveBeenCalled();
      expect(await effectRows(cluster.db, taskNo)).toEqual({});
    },
  );

  it('a key of 200 characters, of any kind, is a key', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const keys = ['k'.repeat(200), '\ud83d\ude00'.repeat(100), '\n\u2028"\'$1;--%'];
    for (const key of keys) expect(await turn.effect(key, NEVER, action())).toBe('done');
    expect(Object.keys(await effectRows(cluster.db, taskNo)).sort()).toEqual([...keys].sort());
  });

  const badContracts: [string, unknown, string][] = [
    ['none', undefined, 'undefined'],
    ['null', null, 'undefined'],
    ['the word alone', 'never', 'undefined'],
    ['no replay', {}, 'undefined'],
    ['another word', { replay: 'always' }, "'always'"],
    ['true', { replay: true }, 'true'],
    ['a bigint', { replay: 1n }, '1n'],
    ['a cycle', { replay: cycle }, 'cycle'],
    ['reconcile as a word', { replay: 'reconcile' }, "'reconcile'"],
  ];

  it.each(badContracts)('a contract that is %s is refused, by value and rule', async (_name, contract, shown) => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const run = action();
    const error = await errorOf(turn.effect('charge', contract as EffectContract<string>, run));
    expect(error).toBeInstanceOf(TurnUsageError);
    expect(error.message).toContain("'charge' has replay: ");
    expect(error.message).toContain(shown);
    expect(error.message).toContain("it must be 'never', 'idempotent' or a function");
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  const nonsense: [string, unknown, string][] = [
    ['nothing', undefined, 'undefined'],
    ['null', null, 'null'],
    ['true', true, 'true'],
    ['another word', { outcome: 'failed' }, "'failed'"],
    ['a bigint', { outcome: 1n }, '1n'],
    ['a cycle', cycle, 'cycle'],
  ];

  it.each(nonsense)('a reconciler that returns %s is told so; the action stays unresolved', async (_n, said, shown) => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const run = jest.fn(() => Promise.reject(new Error('lost')));
    await errorOf(turn.effect('charge', NEVER, run));
    const error = await errorOf(turn.effect('charge', { replay: () => said as never }, run));
    expect(error).toBeInstanceOf(TurnUsageError);
    expect(error.message).toContain("The reconciler of 'charge' returned ");
    expect(error.message).toContain(shown);
    expect(error.message).toContain("{ outcome: 'succeeded', result }");
    expect(run).toHaveBeenCalledTimes(1);
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'dispatched' } });
  });

  it.each([
    ['an effect in an effect', 'an effect'],
    ['a transaction in an effect', 'an effect'],
    ['an effect in a transaction', 'a transaction'],
    ['a transaction in a transaction', 'a transaction'],
    ['an effect in a reconciler', 'an effect'],
  ])('%s is refused, however deep, and the outer one goes on', async (what, outside) => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const run = action();
    const inner = async (): Promise<string> => {
      await new Promise(setImmediate);
      const nested = what.startsWith('an effect') ? turn.effect('inner', NEVER, run) : turn.transaction(run);
      const error = await errorOf(nested);
      expect(error).toBeInstanceOf(TurnUsageError);
      expect(error.message).toContain(`was called inside of ${outside} of the same turn: call one after the other`);
      return 'outer';
    };
    if (what.endsWith('reconciler')) {
      await errorOf(turn.effect('outer', NEVER, () => Promise.reject(new Error('lost'))));
      const replay = async () => ({ outcome: 'succeeded' as const, result: await inner() });
      expect(await turn.effect('outer', { replay }, action())).toBe('outer');
    } else if (what.endsWith('effect')) expect(await turn.effect('outer', NEVER, inner)).toBe('outer');
    else expect(await turn.transaction(inner, { key: 'outer' })).toBe('outer');
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, taskNo)).toEqual({
      outer: expect.objectContaining({ state: 'succeeded', result: '"outer"' }) as object,
    });
  });

  it('an action of another turn, inside of one, is none of its business', async () => {
    const a = await cluster.replica();
    const [one, other] = [await a.working(), await a.working()];
    const inner = () => other.turn.transaction(() => other.turn.flush().catch(({ name }: Error) => name));
    expect(await one.turn.effect('charge', NEVER, async () => (await inner()) ?? null)).toBe('TurnUsageError');
  });

  it('two calls with one key at once: the second is refused, the first goes on', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const answer = new Deferred<string>();
    const run = action();
    const first = turn.effect('charge', NEVER, () => answer.promise);
    const error = await errorOf(turn.effect('charge', { replay: 'idempotent' }, run));
    expect(error).toBeInstanceOf(TurnUsageError);
    expect(error.message).toContain("turn.effect('charge') is under way already");
    answer.resolve('done');
    expect(await first).toBe('done');
    expect(await turn.effect('charge', NEVER, run)).toBe('done');
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { replay: 'never', result: '"done"' } });
  });

  const results: [string, unknown, string, string][] = [
    ['a BigInt', 7n, 'result', 'a bigint'],
    ['NaN', { rate: NaN }, 'result.rate', 'NaN'],
    ['Infinity', [1, -Infinity], 'result[1]', '-Infinity'],
    ['a Date', { items: [{}, { when: new Date() }] }, 'result.items[1].when', 'an instance of Date'],
    ['a Map', { of: new Map() }, 'result.of', 'an instance of Map'],
    ['a Set', new Set(), 'result', 'an instance of Set'],
    ['a Buffer', { body: Buffer.from('x') }, 'result.body', 'an instance of Buffer'],
    ['an Error', { error: new Error('x') }, 'result.error', 'an instance of Error'],
    ['a RegExp', [/x/], 'result[0]', 'an instance of RegExp'],
    ['a boxed string', [new String('x')], 'result[0]', 'an instance of String'],
    ['a class instance', { receipt: new Receipt() }, 'result.receipt', 'an instance of Receipt'],
    ['a promise', { later: Promise.resolve(1) }, 'result.later', 'an instance of Promise'],
    ['a cycle', cycle, 'result.self.again[0]', 'a reference to what contains it'],
    ['a function', { toJSON: () => 'x' }, 'result.toJSON', 'a function'],
    ['a symbol', [[Symbol('x')]], 'result[0][0]', 'a symbol'],
    ['undefined in an array', { list: [1, undefined] }, 'result.list[1]', 'undefined'],
    ['a hole in an array', [1, , 3], 'result[1]', 'undefined'],
  ];

  it.each(results)('a result with %s is refused, by key and path; the action stays unresolved', async (...given) => {
    const [, result, path, found] = given;
    const { turn, taskNo } = await (await cluster.replica()).working();
    const run = jest.fn(() => result);
    const error = await errorOf(turn.effect('charge', NEVER, run));
    expect(error).toBeInstanceOf(EffectResultError);
    expect(error).toMatchObject({ key: 'charge', path });
    expect(error.message).toContain(`'charge' returned a result that cannot be recorded: ${path} is ${found}`);
    expect(await errorOf(turn.effect('charge', NEVER, run))).toBeInstanceOf(EffectUnresolvedError);
    expect(run).toHaveBeenCalledTimes(1);
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'dispatched' } });
  });

  it('a result that a reconciler gives is held to the same', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    await errorOf(turn.effect<unknown>('charge', NEVER, () => Promise.reject(new Error('lost'))));
    const replay = () => ({ outcome: 'succeeded' as const, result: { when: new Date() } as unknown });
    expect(await errorOf(turn.effect('charge', { replay }, action()))).toMatchObject({ path: 'result.when' });
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'dispatched' } });
  });
});
