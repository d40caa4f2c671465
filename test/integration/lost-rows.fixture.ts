import type { TestDatabase } from '../helpers/database.js';

/** Everything that is kept of a task, in tables with its number. */
const TABLES = [
  'a2a_tasks',
  'a2a_task_events',
  'a2a_task_leases',
  'a2a_task_effects',
  'a2a_message_receipts',
  'a2a_push_configs',
];

/** The rows of a task as they were at one moment. */
export interface TaskBackup {
  /** Puts them back, in one transaction: a database that has lost every commit since. Nothing is left of later rows. */
  restore(): Promise<void>;
}

/** What a standby would have that has come this far when its primary is lost. */
export async function backUp(db: TestDatabase, taskNo: number): Promise<TaskBackup> {
  const saved: string[] = [];
  for (const table of TABLES) {
    const [row] = await db.query<{ rows: string }>(
      `SELECT coalesce(json_agg(to_json(r)), '[]')::text AS rows FROM ${table} AS r WHERE task_no = $1`,
      [taskNo],
    );
    saved.push(row!.rows);
  }
  return {
    async restore() {
      const client = await db.connect();
      try {
        await client.query('BEGIN');
        for (const [at, table] of TABLES.entries()) {
          await client.query(`DELETE FROM ${table} WHERE task_no = $1`, [taskNo]);
          await client.query(
            `INSERT INTO ${table} OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::${table}, $1)`,
            [saved[at]],
          );
        }
        await client.query('COMMIT');
      } finally {
        await client.end();
      }
    },
  };
}

/** A task of which nothing is left but its lease. */
export async function deleteTask(db: TestDatabase, taskNo: number): Promise<void> {
  await db.query(
    'WITH e AS (DELETE FROM a2a_task_events WHERE task_no = $1) DELETE FROM a2a_tasks WHERE task_no = $1',
    [taskNo],
  );
}
