import type { LeaseTimes } from '../options/lease.options.js';

/**
 * The part of the TTL that is a margin for drifting clocks and for steps that take time: a lease is given up that much
 * before anybody else may claim it.
 */
export const TTL_MARGIN = 0.1;

/** The part of the TTL that passes at most between two renewals. */
const RENEWED_EVERY = 0.05;
/** How many renewals are sent in a heartbeat interval at least. */
const RENEWALS_PER_INTERVAL = 5;
/** After what part of the TTL a renewal without an answer has another one sent beside it. */
const SECOND_TRY_AFTER = 0.025;
/** For how many of these pauses the one beside it is waited for: so there are three at once at most. */
const SECOND_TRY_FACTOR = 1.5;
/** After what part of the TTL a renewal that failed is tried again at the latest. */
const RETRIED_WITHIN = 0.015;
/** No pause is shorter, in ms. */
const MIN_MS = 20;

/**
 * When renewals are sent, in ms. A lease is live for 0.9 TTL from the last renewal that was sent and accepted. In the worst
 * case an outage begins just before the next one is due, 0.05 TTL later, and 0.8 TTL after that the database answers again.
 * The next try then comes within 0.015 TTL if tries were refused, and within 0.025 TTL if they had no answer: at 0.865 or
 * 0.875 TTL, so that what is left for its answer is 0.035 or 0.025 TTL (3 s of the default 120).
 */
export class RenewalPace {
  /** From one renewal that was accepted to the next one, from when it was sent. */
  readonly everyMs: number;
  /** From a renewal that has no answer to the one beside it. */
  readonly secondTryAfterMs: number;
  /** How long a renewal is waited for that went out beside another. */
  readonly secondTryTimeoutMs: number;
  private readonly retryWithinMs: number;

  constructor({ heartbeatIntervalMs, ttlMs }: LeaseTimes) {
    this.everyMs = Math.max(MIN_MS, Math.min(heartbeatIntervalMs / RENEWALS_PER_INTERVAL, ttlMs * RENEWED_EVERY));
    this.secondTryAfterMs = Math.max(MIN_MS, ttlMs * SECOND_TRY_AFTER);
    this.secondTryTimeoutMs = this.secondTryAfterMs * SECOND_TRY_FACTOR;
    this.retryWithinMs = Math.max(MIN_MS, ttlMs * RETRIED_WITHIN);
  }

  /**
   * From a renewal that failed to the next one; a part is left to chance, so that replicas do not come back together.
   */
  retryMs(): number {
    return this.retryWithinMs * (0.5 + Math.random() / 2);
  }
}
