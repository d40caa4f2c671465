import type pg from 'pg';
import { withClient } from './environment.js';

/** Tasks that are there before anything is measured, written with one statement for each table. */
export interface Seed {
  tasks: number;
  /** The owner of task n, and the context, as SQL over `n`; by default one anonymous owner and a context for each task. */
  owner?: string;
  context?: string;
  /** Which are WORKING and have a lease, as SQL over `n`; the others are COMPLETED. Default: all. */
  running?: string;
  /** Ms from now at which the leases run out; below 0 they have. */
  expiresInMs?: number;
}

/** A text of 200 bytes, as an agent's short answer. */
const ANSWER = 'x'.repeat(200);

/** The id of task n. */
export const seededId = (n: number): string => `task-${n}`;

export async function seedTasks(url: string, { tasks, running = 'true', expiresInMs = 3_600_000, ...by }: Seed) {
  const { owner = `'unknown'`, context = `'context-' || n` } = by;
  const state = `CASE WHEN ${running} THEN 'TASK_STATE_WORKING' ELSE 'TASK_STATE_COMPLETED' END`;
  await withClient(url, async (client) => {
    await client.query('TRUNCATE a2a_tasks, a2a_task_events, a2a_task_leases, a2a_replicas');
    const createIndexes = tasks > MANY ? await dropIndexes(client, 'a2a_tasks') : [];
    await client.query(
      `INSERT INTO a2a_tasks (tenant, owner, task_id, agent, context_id, state, state_since, state_version, version,
                              snapshot, snapshot_version)
       SELECT '', ${owner}, 'task-' || n, 'default', ${context}, ${state},
              clock_timestamp() - (${tasks} - n) * interval '1 second', 1, 1, ${snapshot(context, state)}, 1
         FROM generate_series(1, ${tasks}) AS n`,
    );
    for (const createIndex of createIndexes) await client.query(createIndex);
    // Of tasks that have ended the log is pruned after an hour; those that run have theirs.
    await client.query(
      `INSERT INTO a2a_task_events (task_no, version, event, commit_id)
       SELECT task_no, 1, '{"task":' || snapshot || '}', gen_random_uuid() FROM a2a_tasks
        WHERE state = 'TASK_STATE_WORKING'`,
    );
    await client.query(
      `INSERT INTO a2a_task_leases (task_no, agent, kind, turn_id, admitted_version, holder, follows_holder, attempt,
                                    expires_at, request, context)
       SELECT task_no, 'default', 'message', gen_random_uuid(), 0, '${SEED_HOLDER}', true, 1,
              clock_timestamp() + ${expiresInMs} * interval '1 millisecond', NULL, '{}'
         FROM a2a_tasks WHERE state = 'TASK_STATE_WORKING'`,
    );
    await client.query('VACUUM (ANALYZE) a2a_tasks, a2a_task_events, a2a_task_leases');
  });
}

/** From here on an index is made faster than it is kept. */
const MANY = 100_000;

/** Drops what is no constraint of a table; returns the statements that make it again. */
export async function dropIndexes(client: pg.Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string; definition: string }>(
    `SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS definition
       FROM pg_index AS i
      WHERE i.indrelid = $1::regclass
        AND NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conindid = i.indexrelid)`,
    [table],
  );
  for (const { name } of rows) await client.query(`DROP INDEX ${name}`);
  return rows.map(({ definition }) => definition);
}

/** Who holds the leases: a replica that is not there. */
export const SEED_HOLDER = 'another-replica';

const snapshot = (context: string, state: string): string =>
  `'{"id":"task-' || n || '","contextId":"' || ${context} || '","status":{"state":"' || ${state} ||
   '","timestamp":"2026-01-01T00:00:00.000Z"},"artifacts":[{"artifactId":"a","parts":[{"text":"${ANSWER}"}]}],"history":[]}'`;
