/** How an outside action may be repeated if its outcome is not known. */
export type ReplayContract = 'never' | 'idempotent' | 'reconcile';

/** The turn that an effect belongs to, and the lease under which. */
export interface EffectTurn {
  taskNo: number;
  taskId: string;
  /** The same over all attempts. */
  turnId: string;
  attempt: number;
  /** None where leases are off. */
  generation: number | undefined;
  /** It cleans up after a cancel: that one was asked for stops no dispatch. */
  canceling?: boolean;
}

/** An effect as it is recorded. */
export interface RecordedEffect {
  key: string;
  /** `dispatched`: the outcome is not known. */
  state: 'dispatched' | 'succeeded' | 'not_performed';
  /** `transaction`: it took place in the database, in the transaction that recorded it. */
  replay: ReplayContract | 'transaction';
  /** The attempt that dispatched it last. */
  attempt: number;
  /** The lease that it was dispatched under; 0 where leases are off. */
  generation: number;
  dispatchedAt: Date;
  /** JSON of what it returned; null for nothing. */
  result: string | null;
}

/** The answer to a dispatch. */
export type Dispatch =
  /** It is recorded as dispatched: go ahead. */
  | { outcome: 'dispatched' }
  /** It is on record, and may not simply be dispatched again. */
  | { outcome: 'recorded'; effect: RecordedEffect }
  /** Somebody has asked that the task be canceled. */
  | { outcome: 'canceled' };

/** How an effect came out. */
export type Settlement = { state: 'succeeded'; result: string | null } | { state: 'not_performed' };

/** An effect that is to be dispatched. */
export interface EffectRequest {
  key: string;
  replay: ReplayContract;
}

/**
 * The ledger of outside actions. Provide your own under this class as the token (`extraProviders`) to replace it. Every
 * write checks, in its own transaction, that the turn still holds its lease (I3).
 *
 * What its errors mean to the library: {@link StoreUnavailableError}: ask again, for as long as the lease lives.
 * {@link LeaseLostError}: the lease is gone, and the turn stops. Anything else is a defect, which the executor is told.
 */
export abstract class EffectStore {
  /**
   * Records an effect as dispatched where that is permitted: it is new, it was not performed, or it is unresolved and
   * `idempotent` both then and now. Throws {@link LeaseLostError} where the lease is gone or has run out.
   */
  abstract dispatch(turn: EffectTurn, effect: EffectRequest): Promise<Dispatch>;

  /** Records how an effect came out. May be repeated. Throws {@link LeaseLostError} where the lease is gone. */
  abstract settle(turn: EffectTurn, key: string, settlement: Settlement): Promise<void>;

  /** The effects of a turn, over all its attempts, whose outcome is not known, oldest first. */
  abstract unresolved(taskNo: number, turnId: string): Promise<RecordedEffect[]>;

  /**
   * Forgets effects that were dispatched longer ago than this, of turns that are over, at most `limit`. Returns how
   * many.
   */
  abstract prune(olderThanMs: number, limit: number): Promise<number>;
}
