import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { contenderPool } from '../environment.js';

/**
 * The least that has to be asked of PostgreSQL for the same durable result: one prepared statement for each commit, the
 * versions checked, a lease taken and given back, no locks to order, no agent, nobody who listens. It uses the library's
 * tables, and so pays for the same columns and indexes.
 */
export class LimitStore {
  private readonly pool: pg.Pool;

  constructor(url: string) {
    this.pool = contenderPool(url);
  }

  /** A new task with its first event, its lease, and the receipt of its message. */
  async create(taskId: string, contextId: string, event: string, request: string): Promise<LimitTask> {
    const values = [taskId, contextId, event, randomUUID(), randomUUID(), request, randomUUID(), FINGERPRINT];
    const { rows } = await this.pool.query<{ taskNo: string }>({ name: 'create', text: CREATE, values });
    return { taskNo: rows[0]!.taskNo, version: 1 };
  }

  async append(task: LimitTask, state: string | null, events: string[]): Promise<void> {
    const values = [task.taskNo, task.version, state, events, randomUUID()];
    const { rowCount } = await this.pool.query({ name: 'append', text: APPEND, values });
    this.advance(task, events, rowCount);
  }

  /** The last commit: the task as a whole, and the end of its lease. */
  async end(task: LimitTask, events: string[], snapshot: string): Promise<void> {
    const values = [task.taskNo, task.version, snapshot, events, randomUUID()];
    const { rowCount } = await this.pool.query({ name: 'end', text: END, values });
    this.advance(task, events, rowCount);
  }

  close(): Promise<void> {
    return this.pool.end();
  }

  private advance(task: LimitTask, events: string[], stored: number | null): void {
    if (stored !== events.length) throw new Error(`${String(stored)} of ${events.length} events were stored`);
    task.version += events.length;
  }
}

export interface LimitTask {
  taskNo: string;
  version: number;
}

/** As long as the hash that the library stores. */
const FINGERPRINT = 'f'.repeat(43);

const CREATE = `
  WITH t AS (
    INSERT INTO a2a_tasks (tenant, owner, task_id, agent, context_id, state, state_since, state_version, version,
                           snapshot, snapshot_version)
    VALUES ('', 'unknown', $1, 'default', $2, 'TASK_STATE_WORKING', clock_timestamp(), 1, 1, $3, 1)
    RETURNING task_no
  ), l AS (
    INSERT INTO a2a_task_leases (task_no, agent, kind, turn_id, admitted_version, holder, attempt, expires_at, request,
                                 context)
    SELECT task_no, 'default', 'message', $5::uuid, 0, 'holder', 1, clock_timestamp() + interval '2 minutes', $6, '{}'
      FROM t
  ), r AS (
    INSERT INTO a2a_message_receipts (tenant, owner, agent, message_id, fingerprint, task_no)
    SELECT '', 'unknown', 'default', $7, $8, task_no FROM t
  ), e AS (
    INSERT INTO a2a_task_events (task_no, version, event, commit_id) SELECT task_no, 1, $3, $4::uuid FROM t
  )
  SELECT task_no AS "taskNo" FROM t`;

const APPEND = `
  WITH u AS (
    UPDATE a2a_tasks
       SET version = version + cardinality($4::text[]), state = coalesce($3, state),
           state_since = CASE WHEN $3::text IS NULL THEN state_since ELSE clock_timestamp() END,
           state_version = CASE WHEN $3::text IS NULL THEN state_version ELSE version + cardinality($4::text[]) END,
           updated_at = clock_timestamp()
     WHERE task_no = $1 AND version = $2
    RETURNING task_no
  )
  INSERT INTO a2a_task_events (task_no, version, event, commit_id)
  SELECT u.task_no, $2 + n.at, n.event, $5::uuid FROM u, unnest($4::text[]) WITH ORDINALITY AS n(event, at)`;

const END = `
  WITH u AS (
    UPDATE a2a_tasks
       SET version = version + cardinality($4::text[]), state = 'TASK_STATE_COMPLETED', state_since = clock_timestamp(),
           state_version = version + cardinality($4::text[]), snapshot = $3,
           snapshot_version = version + cardinality($4::text[]), updated_at = clock_timestamp()
     WHERE task_no = $1 AND version = $2
    RETURNING task_no
  ), d AS (
    DELETE FROM a2a_task_leases AS l USING u WHERE l.task_no = u.task_no
  )
  INSERT INTO a2a_task_events (task_no, version, event, commit_id)
  SELECT u.task_no, $2 + n.at, n.event, $5::uuid FROM u, unnest($4::text[]) WITH ORDINALITY AS n(event, at)`;
