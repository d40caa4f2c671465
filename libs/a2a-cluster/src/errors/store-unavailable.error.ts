/**
 * A store cannot do this now: its database is away, overloaded, or lost it to somebody else's transaction. The library asks
 * again for as long as it may. Throw it from a store of your own where the library is to do so. Every other error of a store,
 * but for those that its port names, counts as a defect, and is not tried again.
 */
export class StoreUnavailableError extends Error {
  override readonly name: string = 'StoreUnavailableError';
  readonly code: string = 'A2A_STORE_UNAVAILABLE';
  /**
   * Whether it may have been done all the same. Then a message or a cancel is asked for again until that is known;
   * otherwise only a few times. Default: true.
   */
  readonly mayBeDone: boolean;

  constructor(message: string, { mayBeDone = true, ...options }: ErrorOptions & { mayBeDone?: boolean } = {}) {
    super(message, options);
    this.mayBeDone = mayBeDone;
  }
}
