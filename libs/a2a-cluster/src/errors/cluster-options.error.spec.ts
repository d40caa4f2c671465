import { ClusterOptionsError } from './cluster-options.error.js';

describe('ClusterOptionsError', () => {
  test.each<[unknown, string]>([
    [Symbol('AGENT'), 'Symbol(AGENT)'],
    [class Agent {}, 'Agent'],
    ['AGENT', '"AGENT"'],
    [undefined, 'undefined'],
    [NaN, 'NaN'],
    [5n, '5'],
    [cyclic(), ''],
  ])('shows %p in its message', (value, shown) => {
    expect(ClusterOptionsError.rule('executor', value, 'it is wrong').message).toContain(
      `A2AClusterModule option executor is ${shown}`,
    );
  });
});

function cyclic(): object {
  const value: { self?: object } = {};
  value.self = value;
  return value;
}
