import { hasMoreValues } from './json-values.js';

const bytes = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

describe('The values of a JSON text', () => {
  test.each([
    ['numbers of a list', Array.from({ length: 101 }, (_, at) => at)],
    ['lists in each other', JSON.parse(`${'['.repeat(101)}${']'.repeat(101)}`) as unknown],
    ['members of an object', Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`"${at},`, '\\"'.repeat(9)]))],
    ['parts', Array(51).fill({ text: 'a' })],
  ])('are too many where there are more %s than the limit', (_what, value) => {
    expect(hasMoreValues(bytes(value), 100)).toBe(true);
    expect(hasMoreValues(bytes(value), 103)).toBe(false);
  });

  test('are none that stand within a text, escaped quotation marks or not', () => {
    for (const text of [
      ',[{'.repeat(500),
      '"'.repeat(500),
      '\\'.repeat(501),
      '\\",'.repeat(500),
      'ü,€,😀'.repeat(200),
    ]) {
      expect(hasMoreValues(bytes({ text, more: [text] }), 10)).toBe(false);
    }
  });
});
