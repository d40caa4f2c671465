import type { ReadableTask } from '../../../tools/harness/pipelined-reads.js';
import { inSession } from './database-session.js';

/** The role that all replicas connect as, and that owns what they use. */
export const REPLICA_ROLE = 'replicas';

/** The tables that a table lock may be about. */
export const LOCKABLE = ['a2a_task_leases', 'a2a_tasks', 'a2a_task_events'] as const;

/** A running transaction of the library may have a table for so long before it is locked, in ms. */
const LOCK_WAIT_MS = 20_000;

/** How often somebody looks while a table is locked, in ms. */
const LOOK_MS = 200;

/** How many sessions each replica has with the database, by the replica's name. */
export type SessionCounts = Readonly<Record<string, number>>;

/**
 * What somebody with all rights does to the replicas' database while they use it. Its own sessions are another role's:
 * none of the limits below holds for them.
 */
export class Administrator {
  constructor(private readonly url: string) {}

  /** Ends sessions of a replica, or of all: all of them, or those that listen for wake-ups. Returns how many there were. */
  async endSessions(replica?: string, which: 'all' | 'listening' = 'all'): Promise<number> {
    const { rows } = await inSession(this.url, (client) =>
      client.query<{ ended: boolean }>(
        `SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
          WHERE application_name LIKE $1 AND pid <> pg_backend_pid()${which === 'all' ? '' : " AND (query ILIKE 'LISTEN%' OR query ILIKE '%pg_notify%')"}`,
        [`replica ${replica ?? '%'}`],
      ),
    );
    return rows.length;
  }

  /** Sessions of the replicas that begin from now on have this setting. */
  async restrict(setting: string, value: string): Promise<void> {
    const statement = `ALTER ROLE ${REPLICA_ROLE} SET ${setting} = '${value}'`;
    await inSession(this.url, (client) => client.query(statement));
  }

  /** The replicas may have so many sessions in all; those that are there may stay. */
  async limitSessions(most: number): Promise<void> {
    await inSession(this.url, (client) => client.query(`ALTER ROLE ${REPLICA_ROLE} CONNECTION LIMIT ${most}`));
  }

  /** Takes all limits back. Sessions that are there keep theirs. */
  async lift(): Promise<void> {
    await inSession(this.url, async (client) => {
      await client.query(`ALTER ROLE ${REPLICA_ROLE} RESET ALL`);
      await client.query(`ALTER ROLE ${REPLICA_ROLE} CONNECTION LIMIT -1`);
    });
  }

  /**
   * Keeps a table from everybody for so long, reads included. The lock ends with the session that has it, however that
   * ends. `look` is told every now and then how many sessions the replicas have.
   */
  async lockTable(table: string, forMs: number, look: (sessions: SessionCounts) => void): Promise<void> {
    await inSession(this.url, async (client) => {
      await client.query(`SET lock_timeout = ${LOCK_WAIT_MS}`);
      await client.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
      const until = performance.now() + forMs;
      for (let left = forMs; left > 0; left = until - performance.now()) {
        await new Promise((resolve) => setTimeout(resolve, Math.min(LOOK_MS, left)));
        look(await this.sessions());
      }
      await client.query('ROLLBACK');
    });
  }

  async sessions(): Promise<SessionCounts> {
    const { rows } = await inSession(this.url, (client) =>
      client.query<{ replica: string; count: number }>(
        `SELECT substr(application_name, 9) AS replica, count(*)::int AS count FROM pg_stat_activity
          WHERE application_name LIKE 'replica %' GROUP BY 1`,
      ),
    );
    return Object.fromEntries(rows.map(({ replica, count }) => [replica, count]));
  }

  /** Some of the tasks that there are. */
  async tasks(most: number): Promise<ReadableTask[]> {
    const { rows } = await inSession(this.url, (client) =>
      client.query<ReadableTask>(
        'SELECT task_id AS "taskId", owner AS "user" FROM a2a_tasks ORDER BY task_no DESC LIMIT $1',
        [most],
      ),
    );
    return rows;
  }
}
