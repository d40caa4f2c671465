import { QueryFailedError, QueryRunnerAlreadyReleasedError } from 'typeorm';
import { CommitOutcomeUnknownError } from '../../errors/commit-outcome-unknown.error.js';
import { DatabaseConnectionError } from '../../errors/database-connection.error.js';
import { DatabaseOverloadedError } from '../../errors/database-overloaded.error.js';
import { DatabaseTimeoutError } from '../../errors/database-timeout.error.js';
import { messageOf } from '../../errors/described.js';
import { StoreUnavailableError } from '../../errors/store-unavailable.error.js';

/** The consequences of an error: whether to try again, and whether the connection can still be used. */
export interface Verdict {
  /** The same statement may go through on another try. Everything else is a defect that a retry would only hide. */
  isPassing: boolean;
  /** It was lost to another transaction that wanted the same rows. */
  isContention: boolean;
  /** The connection is of no further use: it is closed, and the next try gets another one. */
  isUnfit: boolean;
  /** The server has no further connection to give. */
  isFull: boolean;
}

const verdict = (told: Partial<Verdict>): Verdict => ({
  isPassing: false,
  isContention: false,
  isUnfit: false,
  isFull: false,
  ...told,
});

/** A mistake in the statement, its values, the schema or the rights. */
const DEFECT = verdict({});
/** The statement was not done, and the connection is as good as before. */
const AGAIN = verdict({ isPassing: true });
const CONTENTION = verdict({ isPassing: true, isContention: true });
/** The server, the way to it or the session is in trouble. */
const ELSEWHERE = verdict({ isPassing: true, isUnfit: true });
const FULL = verdict({ isPassing: true, isUnfit: true, isFull: true });

/** Decisions about single SQLSTATEs, before those about their classes. */
const STATES: Readonly<Record<string, Verdict>> = {
  '0A000': DEFECT, // feature_not_supported; of a prepared statement it says that its plan is stale: see prepared-statements.ts
  '25006': ELSEWHERE, // read_only_sql_transaction: a failover is under way, and this session is on the wrong side of it
  '25P02': DEFECT, // in_failed_sql_transaction: what failed before it tells why
  '25P03': ELSEWHERE, // idle_in_transaction_session_timeout: the server has ended the session
  '25P04': ELSEWHERE, // transaction_timeout: the same
  '26000': ELSEWHERE, // invalid_sql_statement_name: a prepared statement that is not there, behind a pooler
  '42P05': ELSEWHERE, // duplicate_prepared_statement: the same
  '3D000': ELSEWHERE, // invalid_catalog_name: the database is not there, as while it is restored
  '40002': DEFECT, // transaction_integrity_constraint_violation
  '40003': AGAIN, // statement_completion_unknown
  '53300': FULL, // too_many_connections
  '55006': AGAIN, // object_in_use
  '55P03': CONTENTION, // lock_not_available: lock_timeout
  '57014': AGAIN, // query_canceled: statement_timeout, or an administrator
  '57P04': DEFECT, // database_dropped
  '58P01': DEFECT, // undefined_file
  '58P02': DEFECT, // duplicate_file
  '72000': AGAIN, // snapshot_too_old
  XX001: DEFECT, // data_corrupted
  XX002: DEFECT, // index_corrupted
};

/** Decisions about the classes of PostgreSQL's appendix on error codes; a class that is not named here is a defect. */
const CLASSES: Readonly<Record<string, Verdict>> = {
  '08': ELSEWHERE, // connection exception; poolers say so of themselves
  '28': ELSEWHERE, // invalid authorization: at connecting only, as while a password is changed
  '40': CONTENTION, // transaction rollback: serialization failure, deadlock
  '53': AGAIN, // insufficient resources: disk full, out of memory
  '57': ELSEWHERE, // operator intervention: shutdown, crash, starting up, idle_session_timeout
  '58': AGAIN, // system error: an I/O error
  XX: ELSEWHERE, // internal error, which poolers and managed databases say of their own trouble
};

/**
 * Codes of Node.js about a socket or a name: ECONNRESET, EPIPE. No class of SQLSTATEs begins with two letters but XX
 * and HV.
 */
const SOCKET_CODE = /^E(?!RR_)[A-Z][A-Z0-9_]*$/;
const SQLSTATE = /^[0-9A-Z]{5}$/;

/** Classifies an error by its code, never by its text: the server's messages are in the server's language. */
export function verdictOn(error: unknown): Verdict {
  if (error instanceof DatabaseTimeoutError || error instanceof DatabaseConnectionError) return ELSEWHERE;
  if (error instanceof CommitOutcomeUnknownError || error instanceof DatabaseOverloadedError) return AGAIN;
  // Ours for what the database said.
  if (error instanceof StoreUnavailableError) return { ...verdictOn(error.cause), isPassing: true };
  // The connection died between two statements of a transaction, and TypeORM has let go of it.
  if (error instanceof QueryRunnerAlreadyReleasedError) return ELSEWHERE;
  const code = codeOf(error);
  if (code === undefined)
    return error instanceof QueryFailedError && isClientTrouble(error.driverError) ? ELSEWHERE : DEFECT;
  if (SOCKET_CODE.test(code)) return ELSEWHERE;
  return SQLSTATE.test(code) ? (STATES[code] ?? CLASSES[code.slice(0, 2)] ?? DEFECT) : DEFECT;
}

/** SQLSTATE of what the database refused, or the code of what became of the socket, where the error carries one. */
function codeOf(error: unknown): string | undefined {
  if (error instanceof StoreUnavailableError) return codeOf(error.cause);
  const driverError: unknown = error instanceof QueryFailedError ? error.driverError : error;
  const code = (driverError as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** SQLSTATE of what the database refused, where the error carries one. */
export const sqlState = codeOf;

/** Whether it was lost to another transaction that wanted the same rows. */
export const isContention = (error: unknown): boolean => verdictOn(error).isContention;

/** Whether the same statement may go through on another try; see {@link Verdict}. */
export const isPassing = (error: unknown): boolean => verdictOn(error).isPassing;

/**
 * An error as stores throw it: what may go through on another try is a {@link StoreUnavailableError}, with what the database
 * said as its cause. Everything else stays as it is.
 */
export function storeError(error: unknown, mayBeDone: boolean): Error {
  if (error instanceof StoreUnavailableError) {
    if (!(error instanceof DatabaseConnectionError) || mayBeDone || !error.mayBeDone) return error;
    return new DatabaseConnectionError(error.message, { cause: error.cause, mayBeDone });
  }
  return isPassing(error) ? new StoreUnavailableError(messageOf(error), { cause: error, mayBeDone }) : (error as Error);
}

/**
 * An error as it came from `pg`, with a type where it had neither type nor code: what pg says of a connection that broke, of
 * one that it has given up, or of its own time-outs is a plain `Error`. Mistakes in the use of pg are TypeErrors and the like.
 */
export function connectionTrouble(error: unknown): Error {
  if (!isClientTrouble(error)) return error as Error;
  return new DatabaseConnectionError(`The connection to the database failed: ${error.message}.`, { cause: error });
}

function isClientTrouble(error: unknown): error is Error {
  return error instanceof Error && error.constructor.name === 'Error' && codeOf(error) === undefined;
}
