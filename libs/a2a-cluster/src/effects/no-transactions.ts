import { TurnUsageError } from '../errors/turn-usage.error.js';
import type { EffectHost } from './turn-effects.js';
import { TurnTransactions } from './turn-transactions.js';

/** Refuses transactions: the leases are not kept in the app's database. */
export class NoTransactions extends TurnTransactions {
  override run<T>({ taskId }: EffectHost): Promise<T> {
    return Promise.reject(
      new TurnUsageError(
        taskId,
        "turn.transaction() needs the leases to be in the app's database: the LeaseStore that is provided keeps them elsewhere.",
      ),
    );
  }
}
