import { escaped } from './escaped.js';

describe('Text for the log', () => {
  it.each([
    ['a forged line', 'tenant x\nERROR all is lost', 'tenant x\\nERROR all is lost'],
    ['a carriage return', 'a\rb', 'a\\rb'],
    ['a terminal sequence', '\u001b[31mred', '\\u001b[31mred'],
    ['C1 and NUL', '\u009b0m\u0000', '\\u009b0m\\u0000'],
    ['a line separator', 'a\u2028b', 'a\\u2028b'],
    ['plain text', 'Grüße, 世界 🙂', 'Grüße, 世界 🙂'],
  ])('D20 shows %s', (_what, text, shown) => {
    expect(escaped(text)).toBe(shown);
  });

  it('keeps the lines of a stack', () => {
    const error = new Error('one\ntwo');
    const [first, second] = escaped(error.stack!).split('\n');
    expect(first).toBe('Error: one\\ntwo');
    expect(second).toMatch(/^ {4}at /);
  });
});
