import { AsyncLocalStorage } from 'node:async_hooks';
import type { Client, Pool, PoolClient } from 'pg';
import { type DataSource, type EntityManager, type QueryRunner, QueryRunnerAlreadyReleasedError } from 'typeorm';
import { CommitOutcomeUnknownError } from '../errors/commit-outcome-unknown.error.js';
import { DatabaseTimeoutError } from '../errors/database-timeout.error.js';
import { isPassing } from './database-errors.js';
import { DedicatedConnection, destroySocket } from './dedicated-connection.js';
import { PreparedStatements } from './prepared-statements.js';
import { runSingleStatement } from './single-statement.js';

/** Runs statements in one connection: a transaction's, or a single one's. */
export interface SqlExecutor {
  /** `timeoutMs` bounds a statement on its own; in a transaction the transaction's bound holds. */
  query<R extends object>(sql: string, params?: unknown[], timeoutMs?: number): Promise<R[]>;
}

/**
 * The app's DataSource, bounded: no call outlives its time-out, whether the pool, the server or the network is stuck.
 * A connection that did not answer in time is destroyed, never handed back to the pool.
 */
export class ClusterDatabase implements SqlExecutor {
  /**
   * A socket remembers the async context that it was opened in for as long as it lives: a pooled connection must not keep
   * the turn alive that happened to open it.
   */
  private readonly outside = AsyncLocalStorage.snapshot();
  private readonly statements = new PreparedStatements();
  /** Aborted when the app closes: nothing is repeated from then on. */
  readonly closing = new AbortController();

  constructor(
    readonly dataSource: DataSource,
    /** Client-side bound of one call in ms; a caller's own can only be shorter. */
    readonly maxTimeoutMs: number,
    /**
     * The same for a transaction of several statements. Its row locks can hold up a renewal round, so it has to be over
     * well within the time to live of a lease.
     */
    readonly maxTransactionMs: number = maxTimeoutMs,
  ) {
    surviveLostClients(poolOf(dataSource));
  }

  /**
   * Has this text prepared by each connection that runs it. For statements that find their rows by keys, and of which
   * there is a fixed number.
   */
  prepared(sql: string): string {
    return this.statements.add(sql);
  }

  /** One statement in a transaction of its own: one round trip. */
  async query<R extends object>(sql: string, params: unknown[] = [], timeoutMs = this.maxTimeoutMs): Promise<R[]> {
    const pool = poolOf(this.dataSource);
    if (!pool) throw new Error('The DataSource is not connected.');
    const statement = this.statements.configOf(sql, params);
    const { logger } = this.dataSource;
    logger.logQuery(sql, params);
    try {
      const connect = (taken: Parameters<Pool['connect']>[0]): void => this.outside(() => pool.connect(taken));
      return await runSingleStatement<R>(connect, statement, this.bounded(timeoutMs));
    } catch (error) {
      if (this.statements.isRefused(error, statement)) return this.query(sql, params, timeoutMs);
      logger.logQueryError(error as Error, sql, params);
      throw error;
    }
  }

  /**
   * Several statements in one READ COMMITTED transaction. The server itself ends it at `timeoutMs`, so that a frozen
   * process does not keep its row locks: a lease that has run out must stay claimable.
   */
  async transaction<T>(work: (tx: SqlExecutor) => Promise<T>, timeoutMs = this.maxTimeoutMs): Promise<T> {
    const bound = Math.max(1, Math.floor(Math.min(timeoutMs, this.maxTransactionMs)));
    let committing = false;
    const transact = async (runner: QueryRunner): Promise<T> => {
      await runner.query(`BEGIN ISOLATION LEVEL READ COMMITTED; ${limits(bound)}`);
      try {
        const result = await work({ query: (sql, params = []) => this.rowsOf(runner, sql, params) });
        committing = true;
        await runner.query('COMMIT');
        return result;
      } catch (error) {
        await runner.query('ROLLBACK').catch(() => undefined);
        throw error;
      }
    };
    try {
      // The wait for a connection is none of the server's: it counts against our own bound only.
      return await this.withConnection(this.bounded(timeoutMs), transact);
    } catch (error) {
      throw committing && isPassing(error) ? new CommitOutcomeUnknownError(error) : error;
    }
  }

  /**
   * The app's own work in a READ COMMITTED transaction. A process that stands still in it loses it: the server ends each
   * statement and each pause between two of them after `stepMs`. As a whole it is bounded by `timeoutMs`, and rolled
   * back when the signal aborts.
   */
  async managed<T>(
    work: (manager: EntityManager, tx: SqlExecutor) => Promise<T>,
    { stepMs, timeoutMs, signal }: { stepMs: number; timeoutMs: number; signal: AbortSignal },
  ): Promise<T> {
    const bound = Math.max(1, Math.floor(Math.min(timeoutMs, stepMs)));
    const uncommitted = new AbortController();
    const stop = (): void => uncommitted.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    let committing = false;
    const transact = async (runner: QueryRunner): Promise<T> => {
      // TypeORM's own, so that what the manager does inside of it becomes savepoints.
      await runner.startTransaction('READ COMMITTED');
      try {
        if (Number.isFinite(bound)) await runner.query(limits(bound));
        const result = await work(runner.manager, { query: (sql, params = []) => this.rowsOf(runner, sql, params) });
        await assertCommittable(runner);
        // From here on it is decided by the database, and worth waiting for.
        signal.removeEventListener('abort', stop);
        committing = true;
        await runner.commitTransaction();
        return result;
      } catch (error) {
        await rollBack(runner);
        throw error;
      }
    };
    try {
      return await this.withConnection(timeoutMs, transact, uncommitted.signal);
    } catch (error) {
      throw committing && isPassing(error) ? new CommitOutcomeUnknownError(error) : error;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  /** A connection beside the pool, with the pool's own settings. */
  dedicated(onConnected?: (client: Client) => Promise<void>, onLost?: (error: Error) => void): DedicatedConnection {
    const pool = poolOf(this.dataSource)!;
    const config: object = { keepAlive: true, ...withPassword(pool.options) };
    const create = () => this.outside(() => new pool.Client(config));
    return new DedicatedConnection(create, onConnected, onLost);
  }

  private async rowsOf<R extends object>(runner: QueryRunner, sql: string, params: unknown[]): Promise<R[]> {
    const statement = this.statements.configOf(sql, params);
    if (statement.name === undefined) {
      const result = (await runner.query(sql, params, true)) as { records?: R[] };
      return result.records ?? [];
    }
    if (runner.isReleased) throw new QueryRunnerAlreadyReleasedError();
    const { logger } = this.dataSource;
    logger.logQuery(sql, params, runner);
    try {
      // TypeORM has no way to name a statement.
      const client = (await runner.connect()) as PoolClient;
      return (await client.query<R>(statement)).rows;
    } catch (error) {
      // The transaction is over with it: whoever began it may try again, and nothing is prepared then.
      if (!this.statements.isRefused(error, statement)) logger.logQueryError(error as Error, sql, params, runner);
      throw error;
    }
  }

  private bounded(timeoutMs: number): number {
    return Math.min(timeoutMs, this.maxTimeoutMs);
  }

  private async withConnection<T>(
    timeoutMs: number,
    work: (runner: QueryRunner) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const runner = this.dataSource.createQueryRunner();
    const connecting = this.outside(() => runner.connect() as Promise<object>);
    let givenUp = false;
    let begun = false;
    let timer: NodeJS.Timeout | undefined;
    let giveUp!: (reason: Error) => void;
    const expired = new Promise<never>((_, reject) => {
      giveUp = (reason) => {
        givenUp = true;
        // One that comes too late was never used: it goes back to the pool as it is.
        if (begun) connecting.then(destroySocket, () => undefined);
        reject(reason);
      };
    });
    const stop = (): void => giveUp(signal?.reason as Error);
    if (Number.isFinite(timeoutMs)) {
      timer = setTimeout(() => giveUp(new DatabaseTimeoutError(timeoutMs)), Math.max(0, timeoutMs));
    }
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    const working = connecting.then(() => {
      if (givenUp) throw new DatabaseTimeoutError(timeoutMs);
      begun = true;
      return work(runner);
    });
    // The connection goes back when the work has let go of it, which after a time-out is later than our answer.
    const released = working.then(
      () => runner.release(),
      () => runner.release(),
    );
    released.catch(() => undefined);
    try {
      const result = await Promise.race([working, expired]);
      await released;
      return result;
    } catch (error) {
      if (!givenUp) await released.catch(() => undefined);
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  }
}

/** A process that stands still keeps no row lock for longer than this, in ms. */
const limits = (ms: number): string =>
  `SET LOCAL lock_timeout = ${ms}; SET LOCAL statement_timeout = ${ms}; ` +
  `SET LOCAL idle_in_transaction_session_timeout = ${ms}`;

type PgPool = Pool & { Client: new (config: object) => Client };

/** TypeORM's own pool of the pg driver; none before the DataSource is initialized. */
const poolOf = ({ driver }: DataSource): PgPool | undefined => (driver as unknown as { master?: PgPool }).master;

const ignore = (): void => undefined;

/**
 * pg-pool takes its error listener off a client that it hands out, and TypeORM adds its own a moment later. A connection
 * that the server ends in between (failover, pg_terminate_backend) would end the process: an 'error' that nobody hears.
 * The statement that is then sent fails in any case.
 */
function surviveLostClients(pool: PgPool | undefined): void {
  if (pool && !pool.listeners('acquire').includes(hearErrors)) pool.on('acquire', hearErrors);
}

function hearErrors(client: Client): void {
  if (!client.listeners('error').includes(ignore)) client.on('error', ignore);
}

/** What a COMMIT would not say: it answers without an error where it rolls back, or releases a savepoint only. */
async function assertCommittable(runner: QueryRunner): Promise<void> {
  // TypeORM counts them, but does not say.
  if ((runner as unknown as { transactionDepth: number }).transactionDepth !== 1) {
    throw new Error(
      'The work has returned with an inner transaction still open, or has ended the outer one: await it.',
    );
  }
  // Fails where a statement has failed before and the work has gone on, and where the server has ended the session.
  await runner.query('SELECT 1');
}

/** To the outermost: each call only goes back to the savepoint before. */
async function rollBack(runner: QueryRunner): Promise<void> {
  try {
    while (runner.isTransactionActive) await runner.rollbackTransaction();
  } catch {
    // The connection is gone, and the transaction with it.
  }
}

/** pg-pool hides the password from enumeration, so a plain spread would lose it. */
function withPassword(options: object): object {
  return { ...options, password: (options as { password?: unknown }).password };
}
