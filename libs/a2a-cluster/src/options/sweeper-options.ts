import type { RecoveryPolicy } from '../recovery/recovery-policy.js';

/** How abandoned turns are looked for and what becomes of them; durations in ms. Defaults in `a2a-cluster.options.ts`. */
export interface SweeperOptions {
  intervalMs: number;
  /** How many leases are claimed in one statement. */
  batchSize: number;
  /** What becomes of a task whose replica died; see {@link RecoveryPolicy}. */
  policy: RecoveryPolicy;
  /** How often a request is run, the first time included, before its task ends FAILED. */
  maxAttempts: number;
  /** How many abandoned turns one replica runs again at once. */
  maxConcurrentRecoveries: number;
  /** How long the second attempt waits; each further one waits twice as long, 60 s at most, less up to a half at random. */
  backoffMs: number;
}
