/** The right to run one abandoned turn again. */
export interface RecoverySlot {
  /** Gives it back; once is enough, and more does no harm. */
  release(): void;
}

/**
 * How many abandoned turns a replica runs again at once. A slot is taken before a lease is claimed for it: a request
 * that kills its process then uses up the attempts of those that run beside it, and of no others.
 */
export class RecoverySlots {
  private taken = 0;

  constructor(private readonly limit: number) {}

  /** As many as are free, at most `wanted`. */
  take(wanted: number): RecoverySlot[] {
    const count = Math.min(wanted, this.limit - this.taken);
    return Array.from({ length: count }, () => this.one());
  }

  private one(): RecoverySlot {
    this.taken += 1;
    let held = true;
    return {
      release: () => {
        if (held) this.taken -= 1;
        held = false;
      },
    };
  }
}
