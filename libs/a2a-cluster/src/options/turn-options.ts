/** Times and bounds of turns; durations in ms. Defaults in `a2a-cluster.options.ts`. */
export interface TurnOptions {
  maxTurnDurationMs: number;
  unfinishedTurn: 'fail' | 'complete';
  drainTimeoutMs: number;
  cancelTimeoutMs: number;
  maxQueuedBytes: number;
}
