import type { PoolClient } from 'pg';
import { DatabaseConnectionError } from '../../errors/database-connection.error.js';

/** Bounds that the server itself keeps, in ms, whatever becomes of this process. */
export interface SessionLimits {
  /** Of one statement, the wait for locks included. */
  statementMs: number;
  /** Of a pause between two statements of a transaction. */
  idleInTransactionMs: number;
}

/** The properties of a connection. */
export interface Session {
  /** It takes no writes, and will not when the server does again: it is used for one look and closed. */
  readOnly: boolean;
  /** A pooler stands between: what is set for the session would be set for whoever has it next. */
  pooled: boolean;
}

interface SessionRow {
  pid: number;
  standby: boolean;
  readOnly: boolean;
}

const LOOK = `
  SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS standby,
         current_setting('transaction_read_only') = 'on' AS "readOnly"`;

/** Those that this server knows: `transaction_timeout` came with PostgreSQL 17. */
const SET = `
  SELECT set_config(wanted.name, wanted.value, false)
    FROM unnest($1::text[], $2::text[]) AS wanted(name, value) JOIN pg_settings AS known USING (name)`;

/**
 * Looks at a new connection and sets its limits. Refuses one to a standby: after a failover a name may still lead there, and
 * what is opened then would stay in the pool. A standby may lack what a client has just been told.
 * @throws {DatabaseConnectionError}
 */
export async function openSession(client: PoolClient, limits: SessionLimits): Promise<Session> {
  const { rows } = await client.query<SessionRow>(LOOK);
  const { pid, standby, readOnly } = rows[0]!;
  if (standby) throw new DatabaseConnectionError('The database server is a standby, which takes no writes.');
  const pooled = pid !== (client as unknown as { processID?: number | null }).processID;
  if (pooled) pipelined(client);
  else await client.query(SET, settings(limits));
  return { pooled, readOnly };
}

/** Settings that a role or a database may have changed. A limit of theirs could stop the library's statements. */
function settings({ statementMs, idleInTransactionMs }: SessionLimits): [string[], string[]] {
  const wanted: Record<string, string> = {
    statement_timeout: String(Math.ceil(statementMs)),
    lock_timeout: String(Math.ceil(statementMs)),
    idle_in_transaction_session_timeout: String(Math.ceil(idleInTransactionMs)),
    transaction_timeout: '0',
    idle_session_timeout: '0',
    default_transaction_isolation: 'read committed',
  };
  return [Object.keys(wanted), Object.values(wanted)];
}

/**
 * Behind a pooler a statement is three: the limits before it, and a COMMIT. `pg` sends them without waiting in between.
 */
function pipelined(client: PoolClient): void {
  if ('pipeline' in client) (client as { pipeline: boolean }).pipeline = true;
}

/** The limits of one transaction, for the session that has it only. */
export const localLimits = (ms: number): string =>
  `SET LOCAL lock_timeout = ${ms}; SET LOCAL statement_timeout = ${ms}; ` +
  `SET LOCAL idle_in_transaction_session_timeout = ${ms}`;
