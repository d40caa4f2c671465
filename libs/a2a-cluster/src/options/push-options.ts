/** How push receivers are told; durations in ms. Defaults in `a2a-cluster.options.ts`. */
export interface PushOptions {
  /**
   * Networks (CIDR) that push may reach although they are private or reserved, and without TLS. Everything else takes
   * https to a public address.
   */
  allow: string[];
  /** How long a receiver may take to answer one notification. */
  timeoutMs: number;
  /** After how many failures in a row a receiver is given up. */
  maxAttempts: number;
  /** How long the first retry waits; each further one waits twice as long, 5 min at most, less up to a half at random. */
  backoffMs: number;
  /**
   * How many receivers one replica tells at the same time. One that takes longer than 250 ms to answer gives its place to
   * another, until there are four times as many.
   */
  maxConcurrentDeliveries: number;
}
