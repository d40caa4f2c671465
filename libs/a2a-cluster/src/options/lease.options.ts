import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { requireDuration, withoutUndefined } from './rules.js';

/** The times of a lease, in ms. */
export interface LeaseTimes {
  /**
   * How often a replica renews its leases, in ms: at least five times in this time, and at least once in a twentieth of
   * `ttlMs`. A renewal that fails is repeated until the database answers, so an outage of 0.8 `ttlMs` loses no lease.
   *
   * The option bounds two more things. One call of the library to the database takes at most this long, or 2 000 where
   * that is longer. A follow-up waits at most this long for the turn before it to release its lease.
   *
   * A whole number from 1 to 2^31 - 1, and at most a third of `ttlMs`. Default: 30 000, the long side of what job
   * queues use, since a false alarm costs a task.
   */
  heartbeatIntervalMs: number;
  /**
   * How long a lease lasts without a renewal, in ms. After it another replica may claim the task, so it bounds how long
   * the task of a dead replica seems alive. The holder stops its turn a tenth of the time earlier. Writes of a turn are
   * repeated for at most this long while the database does not answer.
   *
   * A whole number from 1 to 2^31 - 1. Default: 120 000, the long side of what job queues use, since a false alarm
   * costs a task.
   */
  ttlMs: number;
}

const LEASE_DEFAULTS: LeaseTimes = {
  heartbeatIntervalMs: 30_000,
  ttlMs: 120_000,
};

/**
 * The times where leases are off. A follow-up does not wait for the turn before it. The writes of a turn are repeated
 * for as long as the default TTL; each try looks in the log for what the one before may have stored.
 */
export const TIMES_WITHOUT_LEASES: LeaseTimes = {
  heartbeatIntervalMs: 0,
  ttlMs: LEASE_DEFAULTS.ttlMs,
};

/** The times with their defaults; false where leases are off. Throws {@link ClusterOptionsError}. */
export function resolveLeases(given: Partial<LeaseTimes> | false | undefined): LeaseTimes | false {
  if (given === false) return false;
  const leases: LeaseTimes = { ...LEASE_DEFAULTS, ...withoutUndefined(given) };
  requireDuration('leases.heartbeatIntervalMs', leases.heartbeatIntervalMs);
  requireDuration('leases.ttlMs', leases.ttlMs);
  if (leases.heartbeatIntervalMs > leases.ttlMs / 3) {
    throw ClusterOptionsError.rule(
      'leases.heartbeatIntervalMs',
      leases.heartbeatIntervalMs,
      `it must be at most a third of leases.ttlMs (${leases.ttlMs}), so that one failed renewal does not lose the lease`,
    );
  }
  return leases;
}
