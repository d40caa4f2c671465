import { isHarmless, MAX_DEPTH } from './parsed-json.js';

const nested = (levels: number, [open, close]: readonly [string, string]): unknown =>
  JSON.parse(open.repeat(levels) + (open === '[' ? '' : '1') + close.repeat(levels));

describe('Parsed JSON', () => {
  test.each([
    ['arrays', ['[', ']']],
    ['objects', ['{"a":', '}']],
  ] as const)('is harmful where %s are nested too deep', (_what, brackets) => {
    expect(isHarmless(nested(MAX_DEPTH, brackets))).toBe(true);
    expect(isHarmless(nested(MAX_DEPTH + 1, brackets))).toBe(false);
    expect(isHarmless({ a: [nested(MAX_DEPTH + 1, brackets)] })).toBe(false);
    expect(isHarmless(nested(100_000, brackets))).toBe(false);
  });

  test('whose members hide what makes a text of an object reads as any object, and stays as it is', () => {
    for (const text of ['{"toString":1,"valueOf":2}', '{"toString":null}', '{"valueOf":"x","a":{"toString":[]}}']) {
      const value: unknown = JSON.parse(text);
      expect(isHarmless(value)).toBe(true);
      expect(String(value)).toBe('[object Object]');
      expect(JSON.stringify(value)).toBe(text);
      expect(Object.keys(value as object)).toEqual(Object.keys(JSON.parse(text) as object));
    }
  });

  test('of any other kind is fine', () => {
    for (const value of [undefined, null, 0, 'text', true, [], {}, [[{}]]]) expect(isHarmless(value)).toBe(true);
  });
});
