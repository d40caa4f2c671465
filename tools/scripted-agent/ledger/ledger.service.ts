import { setTimeout as pause } from 'node:timers/promises';
import type { OnApplicationShutdown } from '@nestjs/common';
import { Pool } from 'pg';
import type { EntityManager } from 'typeorm';

const CONNECT_TIMEOUT_MS = 5_000;

/** Long enough for a network that a test holds up. */
const QUERY_TIMEOUT_MS = 30_000;

/** How long a shutdown waits for what is under way, in ms: a database that hangs must not keep the process from ending. */
const END_MS = 500;

/** What is asked of the ledger. */
export interface LedgerRequest {
  readonly taskId: string;
  readonly idempotencyKey: string;
  readonly amount: number;
  /** How long the ledger takes: to answer a charge it has accepted, or between the two halves of a transfer. */
  readonly takesMs: number;
  readonly signal: AbortSignal;
}

/** What the ledger answers. */
export interface Receipt {
  readonly entry: number;
  readonly amount: number;
}

/** What reached the ledger for a task, and what of it was accepted. */
export interface LedgerCount {
  readonly dispatchAttempts: number;
  readonly acceptedEffects: number;
}

const RECORD_ATTEMPT = 'INSERT INTO ledger.dispatch_attempts (task_id, idempotency_key) VALUES ($1, $2)';

/** An attempt is counted, an entry is made: unless it is `once` and the key has one. */
const CHARGE = `
  WITH attempt AS (${RECORD_ATTEMPT})
  INSERT INTO ledger.entries (task_id, idempotency_key, amount, once, account) VALUES ($1, $2, -$3::integer, $4, 'customer')
  ON CONFLICT (idempotency_key) WHERE once DO NOTHING`;

const TRANSFER_HALF = `
  INSERT INTO ledger.entries (task_id, idempotency_key, amount, once, account) VALUES ($1, $2, $3, false, $4)
  RETURNING entry_no AS entry`;

const FIND = `
  SELECT entry_no AS entry, -amount AS amount FROM ledger.entries
  WHERE idempotency_key = $1 AND account = 'customer' ORDER BY entry_no LIMIT 1`;

/** Every accepted effect, charge or transfer, is one entry on the customer's account. */
const COUNT = `
  SELECT (SELECT count(*)::int FROM ledger.dispatch_attempts WHERE task_id = $1) AS "dispatchAttempts",
         (SELECT count(*)::int FROM ledger.entries WHERE task_id = $1 AND account = 'customer') AS "acceptedEffects"`;

/**
 * A tiny outside service, as a turn sees it: it is reached over connections of its own, and knows nothing of turns and
 * leases. Only {@link transfer} is not outside, since it writes in the caller's transaction.
 */
export class Ledger implements OnApplicationShutdown {
  private readonly pool: Pool;

  constructor(databaseUrl: string) {
    this.pool = new Pool({
      connectionString: databaseUrl,
      application_name: 'ledger',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
    });
    // An idle connection that breaks is replaced by the next request.
    this.pool.on('error', () => undefined);
  }

  /**
   * Accepts at once and answers later: whoever dies in between does not know that he was charged. With `once` a key that
   * was accepted before is recognised, and its first entry is the answer.
   */
  async charge({ taskId, idempotencyKey, amount, takesMs, signal }: LedgerRequest, once: boolean): Promise<Receipt> {
    await this.pool.query(CHARGE, [taskId, idempotencyKey, amount, once]);
    await pause(takesMs, undefined, { signal });
    const receipt = await this.find(idempotencyKey);
    if (receipt === undefined) throw new Error(`the ledger has lost the charge of ${amount}`);
    return receipt;
  }

  /** What was charged under this key, if anything was. */
  async find(idempotencyKey: string): Promise<Receipt | undefined> {
    return (await this.pool.query<Receipt>(FIND, [idempotencyKey])).rows[0];
  }

  /**
   * Takes from one account and gives to another, in the transaction of the manager. The attempt is counted beside it, and
   * so even if the transaction is rolled back.
   */
  async transfer(manager: EntityManager, request: LedgerRequest): Promise<Receipt> {
    const { taskId, idempotencyKey, amount, takesMs, signal } = request;
    await this.pool.query(RECORD_ATTEMPT, [taskId, idempotencyKey]);
    const [debit] = await manager.query<Pick<Receipt, 'entry'>[]>(TRANSFER_HALF, [
      taskId,
      idempotencyKey,
      -amount,
      'customer',
    ]);
    await pause(takesMs, undefined, { signal });
    await manager.query(TRANSFER_HALF, [taskId, idempotencyKey, amount, 'merchant']);
    return { entry: debit?.entry ?? 0, amount };
  }

  async count(taskId: string): Promise<LedgerCount> {
    const { rows } = await this.pool.query<LedgerCount>(COUNT, [taskId]);
    return rows[0] ?? { dispatchAttempts: 0, acceptedEffects: 0 };
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.race([this.pool.end(), pause(END_MS, undefined, { ref: false })]);
  }
}
