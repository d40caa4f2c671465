/** The times that replicas run with, in ms: short, so that a death is told in seconds. */
export const TIMES = {
  heartbeat: 500,
  ttl: 2_500,
  sweep: 500,
  poll: 250,
  drain: 1_000,
  cancel: 1_500,
  backoff: 200,
  pushBackoff: 1_000,
} as const;

export const MAX_ATTEMPTS = 3;
