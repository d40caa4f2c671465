/** How abandoned turns are looked for and ended; durations in ms. Defaults in `a2a-cluster.options.ts`. */
export interface SweeperOptions {
  intervalMs: number;
  batchSize: number;
  /** What becomes of a task whose replica died: `fail` ends it FAILED, saying so. */
  policy: 'fail';
  maxAttempts: number;
  maxConcurrentRecoveries: number;
}
