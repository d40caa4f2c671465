import { largestDeviation, median, pairedRatios, quantile, summarize } from './statistics.js';

describe('The statistics of the bench', () => {
  it('take the median of an odd and of an even number of values, in any order', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([10, 1, 3, 2])).toBe(2.5);
    expect(median([])).toBeNaN();
  });

  it('sort numbers as numbers', () => {
    expect(median([100, 20, 3])).toBe(20);
  });

  it('take quantiles by the nearest rank', () => {
    const values = Array.from({ length: 100 }, (_, at) => 100 - at);
    expect([quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1)]).toEqual([50, 99, 100]);
    expect([quantile([7], 0), quantile([7], 0.99)]).toEqual([7, 7]);
    expect(quantile([], 0.5)).toBeNaN();
  });

  it('leave the values that they are given as they are', () => {
    const values = [3, 1, 2];
    median(values);
    quantile(values, 0.5);
    expect(values).toEqual([3, 1, 2]);
  });

  it('say the middle and the range of the rounds', () => {
    expect(summarize([4, 2, 9])).toEqual({ median: 4, min: 2, max: 9, rounds: 3 });
  });

  it('divide what was measured in the same round', () => {
    expect(pairedRatios([10, 20, 30], [5, 5])).toEqual([2, 4]);
  });

  it('say how far the farthest is from the mean', () => {
    expect(largestDeviation([1, 1, 1])).toBe(0);
    expect(largestDeviation([5, 10, 15])).toBeCloseTo(0.5);
  });
});
