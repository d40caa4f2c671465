import { inspect } from 'node:util';

/**
 * The module cannot start with what it was given. The message is one line that names the option (or the missing part
 * of the app), the value found and the rule it breaks, or what to do about it.
 */
export class ClusterOptionsError extends Error {
  override readonly name = 'ClusterOptionsError';
  readonly code = 'A2A_CLUSTER_OPTIONS';

  constructor(
    /** The option or app part that is wrong, such as `leases.ttlMs` or `dataSource`. */
    readonly option: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** The usual form: option, value found, rule broken. */
  static rule(option: string, value: unknown, rule: string): ClusterOptionsError {
    return new ClusterOptionsError(option, `A2AClusterModule option ${option} is ${show(value)}: ${rule}.`);
  }
}

function show(value: unknown): string {
  if (typeof value === 'function') return value.name || 'a function';
  const shown = inspect(value, { depth: 2, breakLength: Infinity });
  if (typeof value !== 'string' && (typeof value !== 'object' || shown.includes('[Circular'))) return shown;
  return JSON.stringify(value, (_key, inner: unknown) => (typeof inner === 'bigint' ? `${inner}n` : inner));
}
