import { ClusterOptionsError } from '../errors/cluster-options.error.js';

export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Without the keys that were given as undefined, which would undo defaults. */
export function withoutUndefined<T extends object>(
  options: T | undefined,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options ?? {}).filter(([, value]) => value !== undefined)) as never;
}

/** Above 2^31 - 1 ms a timer fires at once. */
export const requireDuration = (option: string, value: unknown): void => requireWhole(option, value, 1, MAX_TIMER_MS);

export function requireWhole(option: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return;
  throw ClusterOptionsError.rule(option, value, `it must be a whole number from ${min} to ${max}`);
}

export function requireOneOf(option: string, value: unknown, allowed: string[], orElse = ''): void {
  if (typeof value === 'string' && allowed.includes(value)) return;
  const named = allowed.map((one) => `'${one}'`).join(', ');
  throw ClusterOptionsError.rule(option, value, `it must be one of ${named}${orElse}`);
}
