import { QueryFailedError, QueryRunnerAlreadyReleasedError } from 'typeorm';
import { CommitOutcomeUnknownError } from '../errors/commit-outcome-unknown.error.js';
import { DatabaseTimeoutError } from '../errors/database-timeout.error.js';

/** SQLSTATE of what the database refused, where the error carries one. */
export function sqlState(error: unknown): string | undefined {
  const driverError: unknown = error instanceof QueryFailedError ? error.driverError : error;
  const code = (driverError as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}

const CONTENTION_STATES = new Set([
  '40001', // serialization failure, under a stricter default_transaction_isolation
  '40P01', // deadlock
  '55P03', // lock_timeout
]);

const PASSING_STATES = new Set([
  ...CONTENTION_STATES,
  '57014', // statement_timeout
  '25P03', // idle_in_transaction_session_timeout
  '25006', // read only: a failover is under way
]);

/** Whether it was lost to another transaction that wanted the same rows. */
export const isContention = (error: unknown): boolean => CONTENTION_STATES.has(sqlState(error) ?? '');

/**
 * Whether a statement was not run because it was prepared: behind a pooler in transaction mode it is not there, or there
 * already; after a table was altered its result is another one.
 */
export function isPreparedRefusal(error: unknown): boolean {
  const state = sqlState(error);
  if (state === '0A000') return /cached plan/i.test((error as Error).message);
  return state === '26000' || state === '42P05';
}

/**
 * Whether the same statement may go through on another try: connection trouble, overload, a failover, a lost lock race.
 * Everything else is a defect that a retry would only hide.
 */
export function isPassing(error: unknown): boolean {
  if (error instanceof DatabaseTimeoutError || error instanceof CommitOutcomeUnknownError) return true;
  // The connection died between two statements of a transaction, and TypeORM has let go of it.
  if (error instanceof QueryRunnerAlreadyReleasedError) return true;
  const state = sqlState(error);
  if (state === undefined) return isConnectionError(error);
  if (isPreparedRefusal(error)) return true; // by then nothing is prepared any more
  if (PASSING_STATES.has(state)) return true;
  // 08 connection, 53 resources, 57P operator intervention (restart, crash), E… are socket errors such as ECONNRESET
  return /^(08|53|57P|E[A-Z_]+$)/.test(state);
}

function isConnectionError(error: unknown): boolean {
  const driverError: unknown = error instanceof QueryFailedError ? error.driverError : error;
  const message = driverError instanceof Error ? driverError.message : '';
  return /connection (was )?(terminated|ended|closed)|not queryable|closed the connection|timeout exceeded|after calling end/i.test(
    message,
  );
}
