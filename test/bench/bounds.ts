import type { Contender, Measurement } from './measurements.js';
import { median, pairedRatios } from './statistics.js';

/** What a workload has to reach: a metric of ours, by itself or as a quotient, on the right side of a number. */
export interface Bound {
  metric: string;
  /** The metric is divided by this one, round by round. */
  by?: { contender?: Contender; metric?: string };
  /** Largest or smallest value that will do. */
  atMost?: number;
  atLeast?: number;
  unit?: string;
}

export interface BoundCheck {
  /** The bound in words: `turns ≥ 3 × peer`. */
  rule: string;
  /** What was measured; undefined where it was not. */
  value: number | undefined;
  verdict: 'met' | 'not met' | 'not measured';
}

/** Holds a bound against what was measured. */
export function checkBound(bound: Bound, measured: readonly Measurement[]): BoundCheck {
  const value = valueOf(bound, measured);
  const rule = ruleOf(bound);
  if (value === undefined || Number.isNaN(value)) return { rule, value: undefined, verdict: 'not measured' };
  const met = value <= (bound.atMost ?? Infinity) && value >= (bound.atLeast ?? -Infinity);
  return { rule, value, verdict: met ? 'met' : 'not met' };
}

function valueOf({ metric, by }: Bound, measured: readonly Measurement[]): number | undefined {
  const values = (contender: Contender, name: string): number[] | undefined =>
    measured.find((it) => it.contender === contender && it.metric === name)?.values;
  const ours = values('ours', metric);
  if (!ours || !by) return ours && median(ours);
  const other = values(by.contender ?? 'ours', by.metric ?? metric);
  return other && median(pairedRatios(ours, other));
}

function ruleOf({ metric, by, atMost, atLeast, unit }: Bound): string {
  const sign = atMost === undefined ? '≥' : '≤';
  const limit = String(atMost ?? atLeast);
  if (!by) return `${metric} ${sign} ${limit}${unit ? ` ${unit}` : ''}`;
  return `${metric} ${sign} ${limit} × ${by.metric ?? by.contender ?? ''}`;
}
