import { checkBound } from './bounds.js';
import type { Contender, Measurement } from './measurements.js';

const measured = (metric: string, values: Partial<Record<Contender, number[]>>): Measurement[] =>
  Object.entries(values).map(([contender, given]) => ({
    contender: contender as Contender,
    metric,
    unit: '',
    values: given,
  }));

describe('The bounds of the bench', () => {
  it.each([
    [[10, 30, 20], 'met', 20],
    [[10, 30, 21], 'not met', 21],
  ] as const)('hold the median of %j against the largest value that will do: %s', (ours, verdict, value) => {
    const check = checkBound({ metric: 'lag', atMost: 20, unit: 'ms' }, measured('lag', { ours: [...ours] }));
    expect(check).toEqual({ rule: 'lag ≤ 20 ms', value, verdict });
  });

  it('compare with another contender round by round, not median by median', () => {
    // Each round is three times the peer's; the medians alone, 30 and 20, would say one and a half.
    const rounds = measured('turns', { ours: [30, 3, 60], peer: [10, 1, 20] });
    const bound = { metric: 'turns', by: { contender: 'peer' as const }, atLeast: 3 };
    expect(checkBound(bound, rounds)).toEqual({ rule: 'turns ≥ 3 × peer', value: 3, verdict: 'met' });
    expect(checkBound({ ...bound, atLeast: 3.1 }, rounds).verdict).toBe('not met');
  });

  it('compare with another metric of ours', () => {
    const rounds = [...measured('busy', { ours: [30] }), ...measured('quiet', { ours: [10] })];
    expect(checkBound({ metric: 'busy', by: { metric: 'quiet' }, atMost: 2 }, rounds)).toEqual({
      rule: 'busy ≤ 2 × quiet',
      value: 3,
      verdict: 'not met',
    });
  });

  it('are not met by what was not measured', () => {
    expect(checkBound({ metric: 'turns', atLeast: 1 }, []).verdict).toBe('not measured');
    expect(
      checkBound({ metric: 'turns', by: { contender: 'peer' }, atLeast: 1 }, measured('turns', { ours: [5] })),
    ).toEqual({
      rule: 'turns ≥ 1 × peer',
      value: undefined,
      verdict: 'not measured',
    });
  });
});
