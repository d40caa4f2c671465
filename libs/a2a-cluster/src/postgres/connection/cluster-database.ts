import { AsyncLocalStorage } from 'node:async_hooks';
import type { Client, PoolClient, QueryConfig, QueryResult } from 'pg';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { CommitOutcomeUnknownError } from '../../errors/commit-outcome-unknown.error.js';
import { DatabaseConnectionError } from '../../errors/database-connection.error.js';
import { DatabaseTimeoutError } from '../../errors/database-timeout.error.js';
import { messageOf } from '../../errors/described.js';
import { cancelBackend } from './cancel-backend.js';
import { clientsOf, ConnectionPool, type Lent, type OpenClients, optionsOf, type PgPool } from './connection-pool.js';
import type { Lane } from './connection-queue.js';
import { connectionTrouble, storeError, verdictOn } from './database-errors.js';
import { DedicatedConnection, destroySocket } from './dedicated-connection.js';
import { DEFAULT_CONNECTIONS } from '../../options/database.options.js';
import { boundedBy } from '../../async/late-timer.js';
import { PreparedStatements } from './prepared-statements.js';
import { localLimits } from './session.js';
import type { SqlExecutor } from './statement.js';
import { EndedByWorkError } from '../../errors/ended-by-work.error.js';
import { LibraryLogger } from '../../logging/library.logger.js';

/** Bounds of the library's calls to the database. */
export interface DatabaseLimits {
  /** Client-side bound of one call in ms; a caller's own can only be shorter. */
  maxTimeoutMs: number;
  /**
   * The same for a transaction of several statements. Its row locks can hold up others, so it has to be over well within
   * the time to live of a lease. Default: as one call.
   */
  maxTransactionMs?: number | undefined;
  /** By then the server itself has ended a statement, in ms. Default: a second after the client-side bound. */
  serverLimitMs?: number | undefined;
  /** How many connections the library opens at most, beside the app's pool. Default: 10. */
  maxConnections?: number | undefined;
}

/**
 * The server ends a statement so much later than the client gives it up, in ms: the client's answer then comes first.
 */
export const SERVER_MARGIN_MS = 1_000;

/** How long the connections may take to be closed in order, in ms. */
const CLOSE_MS = 250;

/** How long the app's own pool may take to end after ours, in ms, before its sockets are closed. */
const APP_POOL_MS = 500;

/**
 * The app's database, bounded: no call outlives its time-out, whether the pool, the server or the network is stuck, and
 * the server ends by itself what nobody waits for. A connection that did not answer in time is closed, never used again.
 */
export class ClusterDatabase implements SqlExecutor {
  readonly maxTimeoutMs: number;
  readonly maxTransactionMs: number;
  private readonly logger = new LibraryLogger('A2AClusterDatabase');
  private readonly outside = AsyncLocalStorage.snapshot();
  private readonly statements = new PreparedStatements();
  private readonly appClients: OpenClients | undefined;
  private made: ConnectionPool | undefined;
  /** Transactions of the app's work, which hold connections of the app's pool. */
  private readonly managing = new Set<() => void>();
  /** Aborted when the app closes: nothing is repeated from then on. */
  readonly closing = new AbortController();

  constructor(
    readonly dataSource: DataSource,
    private readonly limits: DatabaseLimits,
  ) {
    this.maxTimeoutMs = limits.maxTimeoutMs;
    this.maxTransactionMs = limits.maxTransactionMs ?? limits.maxTimeoutMs;
    const pool = poolOf(dataSource);
    surviveLostClients(pool);
    this.appClients = pool && clientsOf(pool);
  }

  /**
   * Opens the connections that are kept for renewals and control work. What cannot be opened now is opened when needed.
   */
  async open(): Promise<void> {
    try {
      await this.connections().open();
    } catch (error) {
      this.logger.warn(`No connection could be opened ahead of its use: ${messageOf(error)}`);
    }
  }

  /**
   * Has this statement prepared by each connection that runs it. For statements that find their rows by keys, and of which
   * there is a fixed number.
   */
  prepared<S extends { readonly text: string }>(statement: S): S {
    this.statements.add(statement.text);
    return statement;
  }

  /**
   * One statement in a transaction of its own: one round trip.
   * @throws {StoreUnavailableError}
   */
  async query<R extends object>(
    sql: string,
    params: unknown[] = [],
    timeoutMs = this.maxTimeoutMs,
    lane: Lane = 'turn',
  ): Promise<R[]> {
    const statement = this.statements.configOf(sql, params);
    const { logger } = this.dataSource;
    logger.logQuery(sql, params);
    try {
      return await this.single<R>(statement, this.bounded(timeoutMs), lane);
    } catch (error) {
      if (this.statements.isRefused(error, statement)) return this.query(sql, params, timeoutMs, lane);
      logger.logQueryError(error as Error, sql, params);
      // If the connection is lost, the statement may have been done.
      throw storeError(error, verdictOn(error).isUnfit);
    }
  }

  /**
   * Several statements in one READ COMMITTED transaction. The server itself ends it at `timeoutMs`, so that a frozen
   * process does not keep its row locks: a lease that has run out must stay claimable.
   * @throws {StoreUnavailableError}
   */
  async transaction<T>(
    work: (tx: SqlExecutor) => Promise<T>,
    timeoutMs = this.maxTimeoutMs,
    lane: Lane = 'turn',
  ): Promise<T> {
    const serverMs = Math.max(1, Math.floor(Math.min(timeoutMs, this.maxTransactionMs)));
    let committing = false;
    const transact = async (client: PoolClient): Promise<T> => {
      await ask(client, `BEGIN ISOLATION LEVEL READ COMMITTED; ${localLimits(serverMs)}`);
      try {
        const result = await work({ query: (sql, params = []) => this.rowsOf(client, sql, params) });
        committing = true;
        await ask(client, 'COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK').catch(() => undefined);
        throw error;
      }
    };
    try {
      return await this.lent(lane, this.bounded(timeoutMs), transact);
    } catch (error) {
      throw committing && mayBeCommitted(error) ? new CommitOutcomeUnknownError(error) : storeError(error, false);
    }
  }

  /**
   * The app's own work in a READ COMMITTED transaction, on a connection of the app's pool. A process that stands still in
   * it loses it: the server ends each statement and each pause between two of them after `stepMs`. As a whole it is
   * bounded by `timeoutMs`, and rolled back when the signal aborts.
   * @throws {EndedByWorkError}
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
        const client = (await runner.connect()) as PoolClient;
        const begun = await transactionId(client, 'pg_current_xact_id()', bound);
        const result = await work(runner.manager, {
          query: (sql, params = []) => this.rowsOf(client, sql, params),
        });
        await assertCommittable(runner, client, begun);
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
      return await this.withRunner(timeoutMs, transact, uncommitted.signal);
    } catch (error) {
      throw committing && mayBeCommitted(error) ? new CommitOutcomeUnknownError(error) : error;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  /** A connection of its own, with the pool's own settings. */
  dedicated(onConnected?: (client: Client) => Promise<void>, onLost?: (error: Error) => void): DedicatedConnection {
    const pool = requirePool(this.dataSource);
    const config: object = { keepAlive: true, ...optionsOf(pool) };
    const create = () => this.outside(() => new pool.Client(config));
    return new DedicatedConnection(create, onConnected, onLost);
  }

  /**
   * Closes the connections. What a server that does not answer keeps open is broken off, also in the app's pool, whose end
   * TypeORM waits for afterwards: a database that hangs must not keep the process from ending.
   */
  async close(): Promise<void> {
    this.closing.abort();
    for (const breakOff of this.managing) breakOff();
    await this.made?.close(CLOSE_MS);
    const pool = poolOf(this.dataSource);
    if (pool && this.appClients) breakOffWhenItEnds(pool, this.appClients);
  }

  private connections(): ConnectionPool {
    this.made ??= new ConnectionPool(requirePool(this.dataSource), this.limits.maxConnections ?? DEFAULT_CONNECTIONS, {
      statementMs: this.limits.serverLimitMs ?? this.maxTimeoutMs + SERVER_MARGIN_MS,
      idleInTransactionMs: this.maxTransactionMs,
    });
    return this.made;
  }

  /** As one step for whoever waits: the commits of all turns go this way. */
  private single<R extends object>(statement: QueryConfig, timeoutMs: number, lane: Lane): Promise<R[]> {
    return new Promise((resolve, reject) => {
      let lent: Lent | undefined;
      const asked = this.connections().lend(lane, (error, given) => {
        if (!given) {
          bound.clear();
          // Nothing was sent.
          return reject(storeError(error, false));
        }
        lent = given;
        runStatement<R>(given, statement, this.maxTransactionMs, (failure, result) => {
          bound.clear();
          const trouble = connectionTrouble(failure);
          given.release(trouble);
          // A missing error is a failure that pg reports as null.
          if (result) resolve(result.rows);
          else reject(trouble);
        });
      });
      const bound = boundedBy(timeoutMs, () => {
        asked.giveUp();
        lent?.abandon();
        reject(new DatabaseTimeoutError(timeoutMs));
      });
    });
  }

  /** Work on one of the library's connections, the wait for it included in the bound. */
  private async lent<T>(lane: Lane, timeoutMs: number, work: (client: PoolClient) => Promise<T>): Promise<T> {
    const until = performance.now() + timeoutMs;
    const lent = await this.connections().borrow(lane, timeoutMs);
    return new Promise<T>((resolve, reject) => {
      const bound = boundedBy(until - performance.now(), () => {
        lent.abandon();
        reject(new DatabaseTimeoutError(timeoutMs));
      });
      work(lent.client).then(
        (result) => {
          bound.clear();
          lent.release();
          resolve(result);
        },
        (error: Error) => {
          bound.clear();
          lent.release(error);
          reject(error);
        },
      );
    });
  }

  private async rowsOf<R extends object>(client: PoolClient, sql: string, params: unknown[]): Promise<R[]> {
    const statement = this.statements.configOf(sql, params);
    const { logger } = this.dataSource;
    logger.logQuery(sql, params);
    try {
      return (await ask<R>(client, statement)).rows;
    } catch (error) {
      if (this.statements.isRefused(error, statement)) {
        // The transaction is over with it. Whoever began it may try again, on another connection.
        throw new DatabaseConnectionError('The connection does not run a statement that it had prepared.', {
          cause: error,
        });
      }
      logger.logQueryError(error as Error, sql, params);
      throw error;
    }
  }

  private bounded(timeoutMs: number): number {
    return Math.min(timeoutMs, this.maxTimeoutMs);
  }

  /** Work on a connection of the app's pool. */
  private async withRunner<T>(
    timeoutMs: number,
    work: (runner: QueryRunner) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const runner = this.dataSource.createQueryRunner();
    const connecting = this.outside(() => runner.connect() as Promise<object>);
    let givenUp = false;
    let begun = false;
    let giveUp!: (reason: Error) => void;
    const expired = new Promise<never>((_, reject) => {
      giveUp = (reason) => {
        if (givenUp) return;
        givenUp = true;
        // One that comes too late was never used: it goes back to the pool as it is.
        if (begun)
          connecting.then(
            (client) => this.abandon(client),
            () => undefined,
          );
        reject(reason);
      };
    });
    expired.catch(() => undefined);
    const stop = (): void => giveUp(signal.reason as Error);
    const breakOff = (): void => giveUp(new DatabaseConnectionError('The replica is shutting down.'));
    const bound = boundedBy(timeoutMs, () => giveUp(new DatabaseTimeoutError(timeoutMs)));
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    this.managing.add(breakOff);
    const working = connecting.then(() => {
      if (givenUp) throw new DatabaseTimeoutError(timeoutMs);
      begun = true;
      return work(runner);
    });
    // The connection goes back when the work has let go of it, which after a time-out is later than our answer.
    const released = working.then(
      () => runner.release(),
      (error: unknown) => release(runner, error),
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
      bound.clear();
      this.managing.delete(breakOff);
      signal.removeEventListener('abort', stop);
    }
  }

  /** A connection of the app's pool whose answer nobody waits for any more. */
  private abandon(client: object): void {
    const pool = requirePool(this.dataSource);
    cancelBackend(client, () => new pool.Client(optionsOf(pool)));
    destroySocket(client);
  }
}

/** Gives failures of pg itself a type of ours. Mistakes of the code that works with the rows keep their own. */
async function ask<R extends object>(client: PoolClient, statement: string | QueryConfig): Promise<QueryResult<R>> {
  try {
    return await client.query<R>(statement as QueryConfig);
  } catch (error) {
    throw connectionTrouble(error);
  }
}

type Answer<R extends object> = (failure: unknown, result?: QueryResult<R>) => void;

/** One statement with the server's own limits about it: the session's, or behind a pooler those of a transaction. */
function runStatement<R extends object>(
  { client, session }: Lent,
  statement: QueryConfig,
  limitMs: number,
  answer: Answer<R>,
): void {
  if (!session.pooled) {
    client.query(statement, (failure: Error | undefined, result: QueryResult<R>) => answer(failure, result));
    return;
  }
  const limits = localLimits(Math.max(1, Math.floor(limitMs)));
  const begun = client.query(`BEGIN ISOLATION LEVEL READ COMMITTED; ${limits}`);
  const isPipelined = (client as { pipeline?: boolean }).pipeline === true;
  const done = isPipelined ? client.query<R>(statement) : begun.then(() => client.query<R>(statement));
  const ended = isPipelined ? client.query('COMMIT') : done.then(() => client.query('COMMIT'));
  Promise.allSettled([begun, done, ended]).then(([first, result, last]) => {
    const failed = [first, result, last].find(({ status }) => status === 'rejected');
    if (failed?.status !== 'rejected')
      return answer(undefined, (result as PromiseFulfilledResult<QueryResult<R>>).value);
    if (isPipelined) return answer(failed.reason);
    client.query('ROLLBACK').then(
      () => answer(failed.reason),
      () => answer(failed.reason),
    );
  }, answer);
}

/** Whether a transaction whose COMMIT failed may have been committed: what lost a race for rows was not. */
const mayBeCommitted = (error: unknown): boolean => {
  const { isPassing, isContention } = verdictOn(error);
  return isPassing && !isContention;
};

/** TypeORM's own pool of the pg driver; none before the DataSource is initialized. */
const poolOf = ({ driver }: DataSource): PgPool | undefined => (driver as unknown as { master?: PgPool }).master;

function requirePool(dataSource: DataSource): PgPool {
  const pool = poolOf(dataSource);
  if (!pool) throw new Error('The DataSource is not connected.');
  return pool;
}

/** From the moment on that the app ends its pool, the pool has a while for it: then its sockets are closed. */
function breakOffWhenItEnds(pool: PgPool, clients: OpenClients): void {
  const end = pool.end.bind(pool) as (...args: unknown[]) => unknown;
  pool.end = ((...args: unknown[]) => {
    setTimeout(() => clients.destroy(), APP_POOL_MS).unref();
    return end(...args);
  }) as typeof pool.end;
}

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

/**
 * With its error where that makes the connection unfit: the pool then closes it. TypeORM's release() has no such word.
 */
async function release(runner: QueryRunner, error: unknown): Promise<void> {
  const { releasePostgresConnection } = runner as { releasePostgresConnection?: (error?: Error) => Promise<void> };
  if (!releasePostgresConnection || !verdictOn(error).isUnfit) return runner.release();
  await releasePostgresConnection.call(runner, error as Error);
}

/**
 * Reads the transaction id of a connection; null outside of a transaction that has written. Sets a limit, if one is
 * given.
 */
async function transactionId(client: PoolClient, current: string, limitMs = Infinity): Promise<string | null> {
  const look = `SELECT ${current}::text AS id`;
  const limited = Number.isFinite(limitMs) ? `${localLimits(limitMs)}; ${look}` : look;
  // Several statements in one text have a result each.
  const results = [await ask<{ id: string | null }>(client, limited)].flat();
  return results.at(-1)?.rows[0]?.id ?? null;
}

/** A COMMIT answers without an error even if it rolls back, or only releases a savepoint. This makes it an error. */
async function assertCommittable(runner: QueryRunner, client: PoolClient, begun: string | null): Promise<void> {
  // TypeORM counts them, but does not say.
  if ((runner as unknown as { transactionDepth: number }).transactionDepth !== 1) {
    throw new EndedByWorkError(
      'The work has returned with an inner transaction still open, or has ended the outer one: await it.',
    );
  }
  // Fails where a statement has failed before and the work has gone on, and where the server has ended the session.
  if ((await transactionId(client, 'pg_current_xact_id_if_assigned()')) === begun) return;
  throw new EndedByWorkError(
    'The work has ended its transaction by a COMMIT or ROLLBACK of its own: what it did since then is outside of the fence.',
  );
}

/** To the outermost: each call only goes back to the savepoint before. */
async function rollBack(runner: QueryRunner): Promise<void> {
  try {
    while (runner.isTransactionActive) await runner.rollbackTransaction();
  } catch {
    // The connection is gone, and the transaction with it.
  }
}
