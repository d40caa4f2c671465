import type { EntityManager } from 'typeorm';
import type { EffectHost } from './turn-effects.js';

/** The work of a turn in the app's own database. */
export type TransactionWork<T> = (manager: EntityManager) => Promise<T>;

export interface TransactionOptions {
  /**
   * Makes it happen once over all attempts of the turn: it is recorded under this key in the same transaction, and a
   * later call returns what the first one returned. Without it each call is a transaction of its own.
   */
  key?: string;
  /** Bound of the whole transaction in ms. Default, and at most: what is left of the lease when it begins. */
  timeoutMs?: number;
}

/** Runs `turn.transaction`: in the database that holds the leases, so that a stale owner cannot commit. */
export abstract class TurnTransactions {
  abstract run<T>(host: EffectHost, work: TransactionWork<T>, options?: TransactionOptions): Promise<T>;
}
