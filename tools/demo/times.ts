/** The times the demo's replicas run with, short so that a death is told in seconds. All in milliseconds. */
export const TIMES = {
  heartbeat: 500,
  ttl: 2_000,
  sweep: 500,
  poll: 250,
  drain: 1_000,
  cancel: 3_000,
  backoff: 200,
} as const;

/** What a slow machine may add to a bound. */
export const SLACK_MS = 500;

/** The longest an abandoned task may go on: its lease runs out, the next sweep finds it. */
export const RECOVERY_BOUND_MS = TIMES.ttl + TIMES.sweep + SLACK_MS;

/** The longest until a turn is run again for the nth time: likewise, and the backoff, which doubles each time. */
export function reExecutionBoundMs(attempt: number): number {
  return RECOVERY_BOUND_MS + TIMES.backoff * 2 ** (attempt - 2);
}

/** How often the replicas of the second story run a turn. */
export const MAX_ATTEMPTS = 3;

/** How long the demo waits for a thing before it says that the thing did not happen. */
export const PATIENCE_MS = 15_000;
