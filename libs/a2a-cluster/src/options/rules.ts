import { ClusterOptionsError } from '../errors/cluster-options.error.js';

/** The longest time that a timer takes, in ms: above 2^31 - 1 it fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Leaves out the keys whose value is undefined: spread over defaults, they would undo them. */
export function withoutUndefined<T extends object>(
  options: T | undefined,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options ?? {}).filter(([, value]) => value !== undefined)) as never;
}

/** A time in ms that a timer takes. */
export const requireDuration = (option: string, value: unknown): void => requireWhole(option, value, 1, MAX_TIMER_MS);

/** A whole number within these bounds, both included. */
export function requireWhole(option: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return;
  throw ClusterOptionsError.rule(option, value, `it must be a whole number from ${min} to ${max}`);
}

/** One of these words. `orElse` names what else the option takes. */
export function requireOneOf(option: string, value: unknown, allowed: string[], orElse = ''): void {
  if (typeof value === 'string' && allowed.includes(value)) return;
  const named = allowed.map((one) => `'${one}'`).join(', ');
  throw ClusterOptionsError.rule(option, value, `it must be one of ${named}${orElse}`);
}

/** Text without white space, and not empty. */
export function requireWord(option: string, value: unknown, rule: string): void {
  if (typeof value !== 'string' || !/^\S+$/.test(value)) throw ClusterOptionsError.rule(option, value, rule);
}
