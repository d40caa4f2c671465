import type { TransactionOptions, TransactionWork } from '../effects/turn-transactions.js';
import type { EffectCall, EffectContract } from '../effects/turn-effects.js';
import { TurnUsageError } from '../errors/turn-usage.error.js';

/**
 * One run of the executor on a task: what an executor may ask and rely on. `requestContext.turn` in `execute`, or
 * {@link currentTurn} anywhere below it.
 */
export abstract class Turn {
  abstract readonly taskId: string;
  abstract readonly contextId: string;

  /**
   * 1 for the first run of the request, one more each time it is run again after a replica was lost. A turn that was
   * handed over by a replica that shut down goes on in the same attempt.
   */
  abstract readonly attempt: number;

  /**
   * Aborts when the turn must stop, with a {@link TurnAbortedError} as its reason: the lease is lost, the task was
   * canceled, the replica shuts down, or the turn took too long. Hand it to what the turn waits for.
   */
  abstract readonly signal: AbortSignal;

  /**
   * The generation of the turn's lease: it only ever grows for a task, so a resource that refuses smaller numbers than
   * it has seen is safe from a replica that was given up for dead. Undefined until the lease exists, which for a new
   * task is when its first event is stored (`await turn.flush()` after it), and where leases are off.
   */
  abstract readonly fencingToken: number | undefined;

  /**
   * Throws the {@link TurnAbortedError} if the turn was stopped, or {@link LeaseLostError} if its lease may have run
   * out. It cannot close the gap to what comes next: that takes the fencing token, or the same database.
   */
  abstract assertHeld(): void;

  /**
   * Waits until everything published so far is stored. Throws {@link LeaseLostError} if it was refused, and
   * {@link TurnUsageError} inside of `transaction`, whose lock the end of a turn would wait for.
   */
  abstract flush(): Promise<void>;

  /**
   * A key for an outside service that recognises repeated requests by one: the same in every attempt of this turn, and
   * another one for each name. 43 characters that fit into a header.
   */
  abstract idempotencyKey(name: string): string;

  /**
   * Runs an outside action that recovery must not repeat unless its contract says so. That it is dispatched is recorded
   * before, under a live lease, and its outcome after. A later call with the same key, in this attempt or another,
   * returns the recorded result, or follows the contract where the outcome is not known.
   *
   * What `run` throws is rethrown and leaves the outcome unknown; {@link EffectNotPerformedError} says that nothing took
   * place. The result must be JSON: null, booleans, finite numbers, strings, arrays and plain objects, or nothing.
   *
   * The check cannot close the gap between itself and the action: a process that stands still in between acts late. For
   * resources that can tell, there is the fencing token.
   * @throws {LeaseLostError} where the lease is gone: nothing was dispatched, or its outcome could not be recorded
   * @throws {EffectUnresolvedError} where the contract forbids to dispatch it again
   * @throws {EffectResultError} where the result cannot be recorded
   * @throws {TurnUsageError} for a key that is used by another call, and inside of an effect or a transaction
   */
  abstract effect<T>(key: string, contract: EffectContract<T>, run: (call: EffectCall) => Promise<T> | T): Promise<T>;

  /**
   * Runs work in the app's own database in a transaction that only the holder of the lease can commit. Each statement,
   * and each pause between two, may take a third of the lease's TTL; the whole, what is left of the lease.
   * With `key` it happens exactly once over all attempts, and its result must be JSON as that of an effect.
   * @throws {LeaseLostError} where the lease is gone: nothing was written
   * @throws {CommitOutcomeUnknownError} where the connection was lost during COMMIT; with a key only if what became of it
   *   could not be looked up before the lease ran out
   * @throws {DatabaseTimeoutError} where it took too long: nothing was written
   * @throws {TurnUsageError} inside of an effect or a transaction, and where leases are kept in another place
   */
  abstract transaction<T>(work: TransactionWork<T>, options?: TransactionOptions): Promise<T>;
}

/** @internal A flush inside of a transaction would wait for itself: the end of the turn waits for its lock. */
export function refuseFlush(taskId: string, inside: 'effect' | 'transaction' | undefined): void {
  if (inside !== 'transaction') return;
  throw new TurnUsageError(
    taskId,
    'turn.flush() was called inside of a transaction, which the end of the turn waits for: call it after.',
  );
}
