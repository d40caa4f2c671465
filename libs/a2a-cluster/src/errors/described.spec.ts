import { detailOf, messageOf } from './described.js';

const hostile = {
  get message(): string {
    throw new Error('no');
  },
  toString(): string {
    throw new Error('neither');
  },
};

describe('what users throw is made into text', () => {
  it.each([
    ['an error', new Error('out of paper'), 'out of paper'],
    ['a text', 'out of paper', 'out of paper'],
    ['nothing', undefined, 'undefined'],
    ['null', null, 'null'],
    ['a number', 42, '42'],
    ['a symbol', Symbol('paper'), 'Symbol(paper)'],
    ['an object', { paper: 0 }, '{ paper: 0 }'],
    ['an object without a prototype', Object.create(null), '[Object: null prototype] {}'],
    ['an error whose message is no text', Object.assign(new Error('x'), { message: { paper: 0 } }), 'paper: 0'],
    ['an object that cannot be made into text', hostile, '[Getter]'],
    [
      'an error whose message throws',
      Object.defineProperty(new Error('x'), 'message', { get: () => hostile.message }),
      'cannot be shown',
    ],
    [
      'a proxy that throws',
      new Proxy(
        {},
        {
          getPrototypeOf: () => {
            throw new Error('no');
          },
        },
      ),
      'cannot be shown',
    ],
  ])('%s', (_what, thrown, text) => {
    expect(messageOf(thrown)).toContain(text);
    expect(detailOf(thrown)).not.toBe('');
  });

  it('cuts a message that is long enough to be a burden to clients', () => {
    expect(messageOf(new Error('x'.repeat(1_000_000)))).toHaveLength(8_193);
  });

  it('names the cause in the detail, whatever it is', () => {
    expect(detailOf(new Error('outer', { cause: new Error('inner') }))).toMatch(/outer[^]*Cause: Error: inner/);
    expect(detailOf(new Error('outer', { cause: Object.create(null) }))).toContain(
      'Cause: [Object: null prototype] {}',
    );
  });
});
