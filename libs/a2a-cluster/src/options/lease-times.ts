/** The times of a lease, in ms. */
export interface LeaseTimes {
  /**
   * In this time five renewals are sent at the least, and one every twentieth of `ttlMs`. They are tried again and again
   * while the database does not answer: an outage of 0.8 `ttlMs` loses no lease. A follow-up waits as long at most for the
   * turn before it to let go. At most a third of `ttlMs`. Default: 30 000.
   */
  heartbeatIntervalMs: number;
  /** For how long a lease is held without a renewal; the holder stops a tenth earlier. Default: 120 000. */
  ttlMs: number;
}
