import type { Client } from 'pg';
import { runsOutAt } from '../../libs/a2a-cluster/src/postgres/leases/lease-statements.js';
import { decodeEvent } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import type { TestDatabase } from '../helpers/database.js';
import { eventually } from '../../tools/harness/wait.js';
import { summaryOf } from './events.fixture.js';

export interface TaskColumns {
  state: string;
  version: number;
  stateVersion: number;
  snapshotVersion: number;
}

export interface LeaseColumns {
  generation: number;
  holder: string | null;
  followsHolder: boolean;
  attempt: number;
  kind: string;
  admittedVersion: number;
  expired: boolean;
  cancelRequested: boolean;
}

/** The task's row as anyone sees it. */
export async function taskRow(db: TestDatabase, taskNo: number): Promise<TaskColumns> {
  const [row] = await db.query<TaskColumns>(
    `SELECT replace(state, 'TASK_STATE_', '') AS state, version, state_version AS "stateVersion",
            snapshot_version AS "snapshotVersion" FROM a2a_tasks WHERE task_no = $1`,
    [taskNo],
  );
  if (!row) throw new Error(`There is no task number ${taskNo}`);
  return row;
}

/** The task's events in a few words each. Fails where the log is not 1, 2, 3 … up to the task's version (I5). */
export async function logOf(db: TestDatabase, taskNo: number): Promise<string[]> {
  const rows = await db.query<{ version: number; event: string }>(
    'SELECT version, event FROM a2a_task_events WHERE task_no = $1 ORDER BY version',
    [taskNo],
  );
  const { version } = await taskRow(db, taskNo);
  expect(rows.map((row) => row.version)).toEqual(Array.from({ length: version }, (_, at) => at + 1));
  return rows.map(({ event }) => summaryOf(decodeEvent(event)));
}

/** The task's lease; undefined where it has none. */
export async function leaseRow(db: TestDatabase, taskNo: number): Promise<LeaseColumns | undefined> {
  const [row] = await db.query<LeaseColumns & { generation: string }>(
    `SELECT generation, holder, follows_holder AS "followsHolder", attempt, kind, admitted_version AS "admittedVersion",
            ${runsOutAt('a2a_replicas', 'l')} <= clock_timestamp() AS expired,
            cancel_requested_at IS NOT NULL AS "cancelRequested"
       FROM a2a_task_leases AS l WHERE task_no = $1`,
    [taskNo],
  );
  return row && { ...row, generation: Number(row.generation) };
}

/**
 * As if the holders of these tasks had sent no heartbeat for a whole TTL; without tasks: of all. What else such a holder has
 * lives on by its own time.
 */
export async function expireLeases(db: TestDatabase, ...taskNos: number[]): Promise<void> {
  await db.query(
    `WITH l AS (
       UPDATE a2a_task_leases SET expires_at = clock_timestamp() - interval '1 second'
        WHERE cardinality($1::bigint[]) = 0 OR task_no = ANY($1::bigint[])
       RETURNING holder
     )
     UPDATE a2a_replicas SET expires_at = clock_timestamp() - interval '1 second'
      WHERE cardinality($1::bigint[]) = 0 OR holder IN (SELECT holder FROM l)`,
    [taskNos],
  );
}

/** Waits until so many sessions stand before a lock that somebody else holds, or until it is `otherwise`. */
export async function untilBlocked(db: TestDatabase, sessions = 1, otherwise = (): boolean => false): Promise<void> {
  await eventually(
    async () => {
      if (otherwise()) return true;
      const [row] = await db.query<{ blocked: number }>(
        `SELECT count(*)::integer AS blocked FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      );
      return row?.blocked === sessions;
    },
    { timeoutMs: 10_000, intervalMs: 5 },
  );
}

/** Holds what a statement locks, in a session of the test's own, until it is released. */
export async function holdLock(db: TestDatabase, sql: string, params: unknown[] = []): Promise<Hold> {
  const client = await db.connect();
  await client.query('BEGIN');
  await client.query(sql, params);
  return new Hold(client);
}

export const holdTask = (db: TestDatabase, taskNo: number): Promise<Hold> =>
  holdLock(db, 'SELECT FROM a2a_tasks WHERE task_no = $1 FOR UPDATE', [taskNo]);

const held = new Set<Hold>();

/** For `afterEach`: a test that failed leaves no lock to the next one. */
export async function releaseHolds(): Promise<void> {
  await Promise.all([...held].map((hold) => hold.release('ROLLBACK')));
}

export class Hold {
  constructor(private readonly client: Client) {
    held.add(this);
  }

  async query(sql: string, params: unknown[] = []): Promise<void> {
    await this.client.query(sql, params);
  }

  async release(how: 'COMMIT' | 'ROLLBACK' = 'COMMIT'): Promise<void> {
    if (!held.delete(this)) return;
    await this.client.query(how);
    await this.client.end();
  }
}

/** The text that makes an event wait: see {@link holdEvents}. */
export const HOLD_HERE = 'hold-this-event';
const HOLD_LOCK = 471_100;

/**
 * Makes a commit that carries {@link HOLD_HERE} stop in its middle: its locks are taken and its task row is written,
 * its event is not, until the hold is released. For every commit after that the database is as it was.
 */
export async function holdEvents(db: TestDatabase): Promise<Hold> {
  await db.query(`
    CREATE OR REPLACE FUNCTION hold_event() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF NEW.event LIKE '%${HOLD_HERE}%' THEN PERFORM pg_advisory_xact_lock_shared(${HOLD_LOCK}); END IF;
      RETURN NEW;
    END $$;
    CREATE OR REPLACE TRIGGER hold_event BEFORE INSERT ON a2a_task_events FOR EACH ROW EXECUTE FUNCTION hold_event()`);
  return holdLock(db, `SELECT pg_advisory_xact_lock(${HOLD_LOCK})`);
}

/** The text that makes an event fail: see {@link refuseEvents}. */
export const REFUSED = 'refuse-this-event';

/** Has the database refuse events with {@link REFUSED} in them, after all else of their statement has been done. */
export async function refuseEvents(db: TestDatabase): Promise<void> {
  await db.query(`
    CREATE FUNCTION refuse_event() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF NEW.event LIKE '%${REFUSED}%' THEN RAISE EXCEPTION 'refused by the test'; END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER refuse_event AFTER INSERT ON a2a_task_events FOR EACH ROW EXECUTE FUNCTION refuse_event()`);
}
