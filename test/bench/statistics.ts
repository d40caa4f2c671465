/** What the rounds of one measure come to. */
export interface Summary {
  median: number;
  min: number;
  max: number;
  rounds: number;
}

/** The value below which the given share of the values lies (nearest rank); NaN without values. */
export function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) return NaN;
  const sorted = Float64Array.from(values).sort();
  const rank = Math.ceil(share * sorted.length);
  return sorted[Math.min(Math.max(rank, 1), sorted.length) - 1]!;
}

/** The middle value, or the mean of the two in the middle; NaN without values. */
export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return NaN;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function summarize(values: readonly number[]): Summary {
  return {
    median: median(values),
    min: values.reduce((least, value) => Math.min(least, value), Infinity),
    max: values.reduce((most, value) => Math.max(most, value), -Infinity),
    rounds: values.length,
  };
}

/** The quotients of values that were measured next to each other: what slows a machine down slows both. */
export function pairedRatios(numerators: readonly number[], denominators: readonly number[]): number[] {
  const rounds = Math.min(numerators.length, denominators.length);
  return Array.from({ length: rounds }, (_, at) => numerators[at]! / denominators[at]!);
}

/** How far the value that is farthest from the mean of all is from it, as a share of the mean. */
export function largestDeviation(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.reduce((most, value) => Math.max(most, Math.abs(value - mean) / mean), 0);
}
