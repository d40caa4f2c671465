import { isDeepStrictEqual } from 'node:util';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { EffectResultError } from '../errors/effect-result.error.js';
import { decodeResult, encodeResult } from './effect-result.js';

/** Results with everything that JavaScript has; some can be recorded, some cannot. */
const anything = fc.anything({
  withBigInt: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withTypedArray: true,
  withSparseArray: true,
  withBoxedValues: true,
  withNullPrototype: true,
  maxDepth: 3,
});

const jsonValue = fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' });

/** As JSON says it: a property that is undefined is none, a prototype is none, and zero has no sign. */
function asRead(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asRead);
  if (typeof value === 'number') return value + 0;
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(entries.map(([name, item]) => [name, asRead(item)]));
}

const readBack = (value: unknown): unknown => decodeResult(encodeResult('key', value));

function refusalOf(value: unknown): EffectResultError | undefined {
  try {
    encodeResult('key', value);
    return undefined;
  } catch (error) {
    if (error instanceof EffectResultError) return error;
    throw error;
  }
}

/** What stands at a path such as `result.items[2].when`, in values whose keys are plain words. */
const at = (value: unknown, path: string): unknown =>
  [...path.matchAll(/\.(\w+)|\[(\d+)\]/g)].reduce<unknown>(
    (found, [, name, index]) => (found as Record<string, unknown>)[name ?? index!],
    value,
  );

describe('The result of an outside action', () => {
  it('is JSON: all of it is accepted and reads back equal', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        expect(isDeepStrictEqual(readBack(value), asRead(value))).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it('whatever it is: what is accepted reads back equal, the rest is refused by name', () => {
    fc.assert(
      fc.property(anything, (value) => {
        const refusal = refusalOf(value);
        if (refusal) expect(refusal).toMatchObject({ key: 'key', path: expect.stringMatching(/^result/) as string });
        else expect(isDeepStrictEqual(readBack(value), asRead(value))).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  it('is text that PostgreSQL can hold: no NUL and no half of a surrogate pair', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 0xffff })), (units) => {
        const value = String.fromCharCode(...units);
        const text = encodeResult('key', { [value]: value })!;
        expect(/[\0\p{Surrogate}]/u.test(text)).toBe(false);
        expect(decodeResult(text)).toEqual({ [value]: value });
      }),
    );
  });

  const odd = fc.constantFrom<[string, unknown]>(
    ...([
      ['undefined', [undefined]],
      ['a bigint', 1n],
      ['NaN', NaN],
      ['a symbol', Symbol('x')],
      ['a function', () => 1],
      ['an instance of Date', new Date()],
      ['an instance of Map', new Map()],
      ['an instance of Uint8Array', new Uint8Array(2)],
    ] as [string, unknown][]),
  );

  it('is refused by the path to what is wrong with it, wherever that stands', () => {
    const steps = fc.array(fc.oneof(fc.constantFrom('a', 'b'), fc.nat({ max: 2 })), { maxLength: 5 });
    fc.assert(
      fc.property(odd, steps, ([found, wrong], path) => {
        const value = path.reduceRight<unknown>(
          (inner, step) =>
            typeof step === 'string' ? { z: 1, [step]: inner } : [...new Array<number>(step).fill(0), inner],
          wrong,
        );
        const refusal = refusalOf(value)!;
        const leaf = found === 'undefined' ? undefined : wrong;
        expect(at(value, refusal.path)).toBe(leaf);
        expect(refusal.message).toContain(`${refusal.path} is ${found}`);
      }),
    );
  });

  it('nothing is nothing, and null is null', () => {
    expect([encodeResult('key', undefined), encodeResult('key', null)]).toEqual([null, 'null']);
    expect([readBack(undefined), readBack(null)]).toEqual([undefined, null]);
  });

  it('may hold one object twice, but not inside of itself', () => {
    const shared = { x: 1 };
    expect(readBack({ one: shared, two: [shared] })).toEqual({ one: { x: 1 }, two: [{ x: 1 }] });
    const list: unknown[] = [];
    list.push({ list });
    expect(refusalOf(list)).toMatchObject({ path: 'result[0].list' });
  });

  it('may come from another realm, as plain objects do under vm', () => {
    expect(readBack(runInNewContext('({ items: [{ x: 1 }], when: null })'))).toEqual({ items: [{ x: 1 }], when: null });
    expect(refusalOf(runInNewContext('({ when: new Date() })'))).toMatchObject({ path: 'result.when' });
  });

  it.each<[string, () => unknown]>([
    ['properties beside the items of an array', () => /b/.exec('abc')],
    ['an array of a class', () => new (class Rows extends Array<number> {})()],
    [
      'an object of a class without Object',
      () => Object.create(Object.create(null, { x: { value: 1 } }) as object) as object,
    ],
    ['a key that is a symbol', () => ({ [Symbol('x')]: 1 })],
  ])('%s would be lost, and is refused', (_name, make) => {
    expect(refusalOf(make())).toBeInstanceOf(EffectResultError);
  });

  it('keeps __proto__ as a key', () => {
    const value = JSON.parse('{"__proto__": {"polluted": true}}') as object;
    expect(JSON.stringify(readBack(value))).toBe(JSON.stringify(value));
  });
});
