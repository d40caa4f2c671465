import { describeError } from './describe-error.js';

describe('describeError', () => {
  it.each([
    ['an error', new Error('no such host'), 'no such host'],
    ['the first line of a long one', new Error('syntax error\n  at LINE 1\n  near x'), 'syntax error'],
    ['one without a message', new RangeError(), 'RangeError'],
    [
      'the first cause of a connection that no address took',
      new AggregateError([
        new Error('connect ECONNREFUSED ::1:5432'),
        new Error('connect ECONNREFUSED 127.0.0.1:5432'),
      ]),
      'connect ECONNREFUSED ::1:5432',
    ],
    ['an empty collection', new AggregateError([], 'all failed'), 'all failed'],
    ['what is no error at all', 'thrown\ntext', 'thrown'],
  ])('says one line of %s', (_what, error, line) => {
    expect(describeError(error)).toBe(line);
  });
});
