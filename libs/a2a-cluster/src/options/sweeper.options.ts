import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import type { LeaseTimes } from './lease.options.js';
import type { RecoveryPolicy } from './recovery-policy.js';
import { MAX_TIMER_MS, requireDuration, requireOneOf, requireWhole, withoutUndefined } from './rules.js';

/**
 * How abandoned turns are found, and what becomes of them. The sweeper needs `ScheduleModule` of @nestjs/schedule in
 * the app.
 */
export interface SweeperOptions {
  /**
   * How often every replica looks for leases that have run out, in ms. A sweep comes up to a fifth earlier, at random,
   * so that replicas do not sweep together. Tasks past `interruptedTaskTimeoutMs` are looked for at the same time.
   *
   * A whole number from 1 to 2^31 - 1. Default: 30 000, as the heartbeat interval.
   */
  intervalMs: number;
  /** How many leases one statement claims. A whole number from 1 to 10 000. Default: 100. */
  batchSize: number;
  /**
   * What becomes of a task whose replica died: `'fail'`, `'re-execute'`, or a function that decides for each; see
   * {@link RecoveryPolicy}. With anything but `'fail'` a replica that shuts down hands over the turns that outlast
   * `turns.drainTimeoutMs`, and another replica runs them again. Default: `'fail'`, since only the author of the agent
   * knows what may be done twice.
   */
  policy: RecoveryPolicy;
  /**
   * How often a request is run, the first time included, before its task ends FAILED. A run that was handed over by a
   * replica that shut down does not count. A whole number from 1 to 1 000 000. Default: 3.
   */
  maxAttempts: number;
  /** How many abandoned turns one replica runs again at once. A whole number from 1 to 1 000 000. Default: 4. */
  maxConcurrentRecoveries: number;
  /**
   * How long the second attempt waits, in ms. Each further one waits twice as long as the one before it, at most
   * 60 000; jitter shortens each pause by up to half. A turn that was handed over does not wait. A whole number from 0
   * to 2^31 - 1. Default: 1 000.
   */
  backoffMs: number;
}

const SWEEPER_DEFAULTS: SweeperOptions = {
  intervalMs: 30_000,
  batchSize: 100,
  policy: 'fail',
  maxAttempts: 3,
  maxConcurrentRecoveries: 4,
  backoffMs: 1_000,
};

/** The sweeper with its defaults. Throws {@link ClusterOptionsError}. */
export function resolveSweeper(given: Partial<SweeperOptions> | undefined, leases: LeaseTimes | false): SweeperOptions {
  if (given && !leases) {
    throw ClusterOptionsError.rule('sweeper', given, 'without leases (leases: false) there is nothing to sweep');
  }
  const sweeper: SweeperOptions = { ...SWEEPER_DEFAULTS, ...withoutUndefined(given) };
  requireDuration('sweeper.intervalMs', sweeper.intervalMs);
  requireWhole('sweeper.batchSize', sweeper.batchSize, 1, 10_000);
  requireWhole('sweeper.maxAttempts', sweeper.maxAttempts, 1, 1_000_000);
  requireWhole('sweeper.maxConcurrentRecoveries', sweeper.maxConcurrentRecoveries, 1, 1_000_000);
  requireWhole('sweeper.backoffMs', sweeper.backoffMs, 0, MAX_TIMER_MS);
  if (typeof sweeper.policy !== 'function') {
    requireOneOf('sweeper.policy', sweeper.policy, ['fail', 're-execute'], ' or a function');
  }
  return sweeper;
}
