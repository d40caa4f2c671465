import type { ClusterDatabase } from '../connection/cluster-database.js';
import { EndedByWorkError } from '../../errors/ended-by-work.error.js';
import type { SqlExecutor } from '../connection/statement.js';
import { isPassing } from '../connection/database-errors.js';
import { Backoff } from '../../async/backoff.js';
import { CommitOutcomeUnknownError } from '../../errors/commit-outcome-unknown.error.js';
import { LeaseLostError } from '../../errors/lease-lost.error.js';
import { TurnUsageError } from '../../errors/turn-usage.error.js';
import { racePoint } from '../../race-points/race-points.js';
import { insideBoundary } from '../../effects/boundary.js';
import { type EffectStatements, effectStatements, type EffectTables } from './effect-statements.js';
import type { EffectTurn } from '../../effects/effect-store.js';
import { decodeResult, encodeResult } from '../../effects/effect-result.js';
import { type TransactionOptions, type TransactionWork, TurnTransactions } from '../../effects/turn-transactions.js';
import { checkKey, type EffectHost, refuseInside, shown } from '../../effects/turn-effects.js';
import { TransactionNotRecordedError } from '../../errors/transaction-not-recorded.error.js';

/**
 * Transactions in the app's own database that a stale owner cannot commit: they hold the lease's row, so that nobody
 * can claim the lease while they are open, and begin only while it is theirs.
 */
export class FencedTransactions extends TurnTransactions {
  private readonly sql: EffectStatements;

  constructor(
    private readonly database: ClusterDatabase,
    tables: EffectTables,
  ) {
    super();
    this.sql = effectStatements(tables);
  }

  override async run<T>(host: EffectHost, work: TransactionWork<T>, options: TransactionOptions = {}): Promise<T> {
    const { key, timeoutMs } = options;
    refuseInside(host, 'transaction()');
    if (key !== undefined) checkKey(host.taskId, key);
    if (timeoutMs !== undefined) checkTimeout(host.taskId, timeoutMs);
    const turn = await host.begin();
    const bound = Math.min(timeoutMs ?? Infinity, host.deadline - performance.now());
    // Its row lock keeps the lease from being claimed, so it has to be over well within the lease's time to live.
    const stepMs = turn.generation === undefined ? Infinity : this.database.maxTransactionMs;
    const record = key === undefined ? undefined : new TransactionRecord(this.sql, turn, key);
    try {
      racePoint('transaction.before');
      const done = await this.database.managed(
        async (manager, tx) => {
          await this.fence(host, turn, tx);
          racePoint('transaction.fenced');
          const before = await record?.begin(tx);
          if (before) return decodeResult(before.result) as T;
          const result = await insideBoundary(host, 'transaction', () => work(manager));
          await record?.finish(tx, result);
          racePoint('transaction.within');
          return result;
        },
        { stepMs, timeoutMs: bound, signal: host.signal },
      );
      racePoint('transaction.after');
      return done;
    } catch (error) {
      if (error instanceof EndedByWorkError) throw new TurnUsageError(host.taskId, error.message);
      if (error instanceof CommitOutcomeUnknownError) {
        // The work may have been written, whether or not the lease is still held.
        if (record) return await this.lookUp<T>(host, record, error);
        throw error;
      }
      // Its session was ended because this process stood still: what counts is that the lease is lost.
      if (isPassing(error) && !(await host.confirmLease())) host.assertHeld();
      throw error;
    }
  }

  private async fence(host: EffectHost, turn: EffectTurn, tx: SqlExecutor): Promise<void> {
    const { taskNo, generation } = turn;
    const fence = generation === undefined ? this.sql.fence.unfenced : this.sql.fence.fenced;
    const [lease] = await fence.run(tx, { taskNo, generation: generation ?? 0 });
    if (!lease) throw new LeaseLostError(turn.taskId, 'it has run out, or another replica has claimed or ended it');
    if (lease.canceled && !turn.canceling) host.canceled();
  }

  /** The answer to COMMIT was lost: what was recorded in the transaction tells whether it was done. */
  private async lookUp<T>(host: EffectHost, record: TransactionRecord, lost: CommitOutcomeUnknownError): Promise<T> {
    const backoff = new Backoff();
    const triedOutAt = performance.now() + host.retryMs;
    for (;;) {
      try {
        const found = await this.database.transaction(async (tx) => {
          // Waits for the lost transaction if it is still open, and then knows. What it enters itself is rolled back.
          const before = await record.begin(tx);
          if (!before) throw new TransactionNotRecordedError();
          return before;
        });
        return decodeResult(found.result) as T;
      } catch (error) {
        if (error instanceof TransactionNotRecordedError) throw lost.cause;
        if (!isPassing(error)) throw error;
        if (host.signal.aborted || performance.now() >= Math.min(host.deadline, triedOutAt)) throw lost;
        await backoff.pause();
      }
    }
  }
}

/** Anything else would be no bound at all. */
function checkTimeout(taskId: string, timeoutMs: unknown): void {
  if (typeof timeoutMs === 'number' && timeoutMs > 0 && (timeoutMs < 2 ** 31 || timeoutMs === Infinity)) return;
  throw new TurnUsageError(
    taskId,
    `The transaction's timeoutMs is ${shown(timeoutMs)}: it must be a number of ms above 0 and below 2^31.`,
  );
}

/** The entry of a transaction in the ledger. */
class TransactionRecord {
  constructor(
    private readonly sql: EffectStatements,
    private readonly turn: EffectTurn,
    private readonly key: string,
  ) {}

  /** Enters it; or returns the entry of the transaction that was done under this key before. */
  async begin(tx: SqlExecutor): Promise<{ result: string | null } | undefined> {
    const { taskNo, taskId, turnId, attempt, generation = 0 } = this.turn;
    const { key } = this;
    const entered = await this.sql.beginRecord.run(tx, { taskNo, turnId, key, attempt, generation });
    if (entered.length > 0) return undefined;
    const [before] = await this.sql.recorded.run(tx, { taskNo, turnId, key });
    if (before?.replay === 'transaction') return before;
    throw new TurnUsageError(taskId, `'${this.key}' is the key of an effect of this turn, not of a transaction.`);
  }

  /** A result that cannot be recorded rolls the transaction back. */
  async finish(tx: SqlExecutor, result: unknown): Promise<void> {
    const { taskNo, turnId } = this.turn;
    const text = encodeResult(this.key, result);
    await this.sql.finishRecord.run(tx, { taskNo, turnId, key: this.key, result: text });
  }
}
