import type { LeaseRequest } from '../../leases/lease-store.js';
import { decodeEvent } from '../../tasks/task-event.codec.js';
import type { VersionedTaskEvent } from '../../tasks/task-event.js';
import type { FoundTask, LargeTask, PushReceiver, TaskScope } from '../../tasks/task-store.js';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import { Statement } from '../connection/statement.js';
import { leaseColumns, leaseExpiry, runsOutAt } from '../leases/lease-statements.js';
import { INTERRUPTED_LIST, SETTLED_LIST, TERMINAL_LIST } from '../schema/state-lists.js';
import { isTask, SCOPE, type TaskOfAgent } from './task-key.js';
import { type DecisionRow, type FoundRow, foundTask, foundUpTo } from './task-rows.js';

/** The tables that the task statements name. */
export interface TaskTables {
  tasks: string;
  events: string;
  leases: string;
  replicas: string;
  pushConfigs: string;
  receipts: string;
  effects: string;
}

/** A load reads the snapshot and the tail of the log behind it in one statement, and so at one moment. */
export const storedTaskColumns = ({ events }: TaskTables, t: string): string => `
  ${t}.task_no AS "taskNo", ${t}.version, ${t}.state_version AS "stateVersion", ${t}.state,
  ${t}.context_id AS "contextId", ${t}.snapshot, ${t}.snapshot_version AS "snapshotVersion",
  (SELECT '[' || string_agg(e.event, ',' ORDER BY e.version) || ']' FROM ${events} AS e
    WHERE e.task_no = ${t}.task_no AND e.version > ${t}.snapshot_version AND e.version <= ${t}.version) AS tail`;

/**
 * The same of a task whose snapshot is no longer than so many bytes; of a longer one how many there are to read, and
 * neither snapshot nor tail. The length of a text is known without reading it. A tail is never longer than its snapshot,
 * or 256 k characters.
 */
const storedUpToColumns = ({ events }: TaskTables, t: string, maxBytes: string): string => {
  const isLarge = `octet_length(${t}.snapshot) > ${maxBytes}::integer`;
  const tail = `FROM ${events} AS e
    WHERE e.task_no = ${t}.task_no AND e.version > ${t}.snapshot_version AND e.version <= ${t}.version`;
  return `
  ${t}.task_no AS "taskNo", ${t}.version, ${t}.state_version AS "stateVersion", ${t}.state,
  ${t}.context_id AS "contextId", ${t}.snapshot_version AS "snapshotVersion",
  CASE WHEN ${isLarge} THEN NULL ELSE ${t}.snapshot END AS snapshot,
  CASE WHEN ${isLarge} THEN NULL ELSE (SELECT '[' || string_agg(e.event, ',' ORDER BY e.version) || ']' ${tail}) END AS tail,
  CASE WHEN ${isLarge}
       THEN octet_length(${t}.snapshot) + (SELECT coalesce(sum(octet_length(e.event)), 0) ${tail}) END AS bytes`;
};

/** The task's owner, and whether somebody runs it. */
const foundTaskColumns = ({ leases }: TaskTables, t: string): string => `
  ${t}.tenant, ${t}.owner, ${t}.task_id AS "taskId",
  (SELECT l.admitted_version FROM ${leases} AS l WHERE l.task_no = ${t}.task_no) AS "admittedVersion"`;

export const findStatement = (tables: TaskTables): Statement<TaskOfAgent, FoundTask> =>
  new Statement(
    `
  SELECT ${storedTaskColumns(tables, 't')}, ${foundTaskColumns(tables, 't')}
    FROM ${tables.tasks} AS t
   WHERE ${isTask('t', SCOPE)} AND t.agent = $agent`,
    foundTask,
  );

export const findUpToStatement = (
  tables: TaskTables,
): Statement<TaskOfAgent & { maxBytes: number }, FoundTask | LargeTask> =>
  new Statement(
    `
  SELECT ${storedUpToColumns(tables, 't', '$maxBytes')}, ${foundTaskColumns(tables, 't')}
    FROM ${tables.tasks} AS t
   WHERE ${isTask('t', SCOPE)} AND t.agent = $agent`,
    foundUpTo,
  );

export const findByNoUpToStatement = (
  tables: TaskTables,
): Statement<{ taskNo: number; maxBytes: number }, FoundTask | LargeTask> =>
  new Statement(
    `
  SELECT ${storedUpToColumns(tables, 't', '$maxBytes')}, ${foundTaskColumns(tables, 't')}
    FROM ${tables.tasks} AS t
   WHERE t.task_no = $taskNo`,
    foundUpTo,
  );

export const findByNoStatement = (tables: TaskTables): Statement<{ taskNo: number }, FoundRow> =>
  new Statement(`
  SELECT ${storedTaskColumns(tables, 't')}, ${foundTaskColumns(tables, 't')}
    FROM ${tables.tasks} AS t
   WHERE t.task_no = $taskNo`);

/**
 * The first half of every decision about a task: its row lock, which all writers take first. What is decided from is
 * read by the next statement, whose snapshot is younger than the lock.
 */
export const lockStatement = ({ tasks }: TaskTables): Statement<TaskOfAgent, { taskNo: string }> =>
  new Statement(`
  SELECT t.task_no AS "taskNo" FROM ${tasks} AS t
   WHERE ${isTask('t', SCOPE)} AND t.agent = $agent
     FOR UPDATE`);

/** The same by */
export const lockByNoStatement = ({ tasks }: TaskTables): Statement<{ taskNo: number }, { taskNo: string }> =>
  new Statement(`
  SELECT task_no AS "taskNo" FROM ${tasks} WHERE task_no = $taskNo FOR UPDATE`);

/**
 * Read under the task lock: the task and its lease as they are now. The lease is locked too, where there is one: a
 * claim in flight is waited for, and then seen as the lease it made, never as no lease (O55).
 */
export const decideStatement = (tables: TaskTables): Statement<{ taskNo: string }, DecisionRow> =>
  new Statement(`
  WITH l AS MATERIALIZED (
    SELECT generation, admitted_version, expires_at, turn_id, holder, follows_holder, claims
      FROM ${tables.leases} WHERE task_no = $taskNo FOR KEY SHARE
  )
  SELECT ${storedTaskColumns(tables, 't')},
         l.generation AS "leaseGeneration", l.admitted_version AS "admittedVersion",
         l.turn_id AS "leaseTurnId", l.holder AS "leaseHolder", l.claims AS "leaseClaims",
         ${runsOutAt(tables.replicas, 'l')} <= clock_timestamp() AS expired
    FROM ${tables.tasks} AS t LEFT JOIN l ON true
   WHERE t.task_no = $taskNo`);

/**
 * The lease of a follow-up or of a cancel turn, in the transaction that admits it. Columns as in
 * `firstCommitsStatement`.
 */
export const acquireStatement = ({
  leases,
}: TaskTables): Statement<LeaseRequest & { taskNo: number; agent: string; version: number }, { generation: string }> =>
  new Statement(`
  INSERT INTO ${leases} (${leaseColumns})
  VALUES ($taskNo, $agent, $kind, $turnId::uuid, $version::integer, $holder, true, 1, true, ${leaseExpiry('$ttlMs')}, $request, $context,
          CASE WHEN $kind = 'cancel' THEN clock_timestamp() END)
  RETURNING generation`);

/**
 * Under the task lock: the holder is to cancel. The first request counts. What waits for a replica to run it need not
 * wait any longer.
 */
export const flagCancelStatement = ({ leases }: TaskTables): Statement<{ taskNo: number }> =>
  new Statement(`
  UPDATE ${leases}
     SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()),
         expires_at = CASE WHEN holder IS NULL THEN least(expires_at, clock_timestamp()) ELSE expires_at END
   WHERE task_no = $taskNo`);

/**
 * A push receiver that comes with a follow-up, under its task's lock. One that is there keeps its place in the log; one
 * that was given up, or is through, is due again.
 */
export const savePushStatement = ({
  pushConfigs,
}: Pick<TaskTables, 'pushConfigs'>): Statement<PushReceiver & { taskNo: number; version: number }> =>
  new Statement(`
  INSERT INTO ${pushConfigs} AS p (task_no, config_id, config, wire_version, delivered_version)
  VALUES ($taskNo, $configId, $config, $wireVersion, $version)
  ON CONFLICT (task_no, config_id) DO UPDATE
     SET config = EXCLUDED.config, wire_version = EXCLUDED.wire_version, attempts = 0, failed = NULL,
         claimed_until = CASE WHEN p.failed IS NULL AND p.claimed_until < 'infinity' THEN p.claimed_until END`);

export const commitDoneStatement = ({
  events,
}: TaskTables): Statement<{ taskNo: number; commitId: string; after: number }, { version: number | null }> =>
  new Statement(`
  SELECT max(version) AS version FROM ${events} WHERE task_no = $taskNo AND version > $after AND commit_id = $commitId::uuid`);

interface EventRow {
  version: number;
  event: string;
  bytes: number;
}

/** A page ends with the event that reaches the bytes. */
export const readEventsStatement = ({
  events,
}: TaskTables): Statement<{ taskNo: number; after: number; limit: number; bytes: number }, VersionedTaskEvent> =>
  new Statement(
    `
  SELECT version, event, bytes
    FROM (SELECT version, event, octet_length(event) AS bytes,
                 sum(octet_length(event)) OVER (ORDER BY version ROWS UNBOUNDED PRECEDING) AS total
            FROM ${events}
           WHERE task_no = $taskNo AND version > $after
           ORDER BY version
           LIMIT $limit) AS page
   WHERE total - bytes < $bytes
   ORDER BY version`,
    ({ version, event, bytes }: EventRow) => ({ version, event: decodeEvent(event), bytes }),
  );

/** The position of a task. */
interface PositionRow {
  taskNo: string;
  version: number;
  ended: boolean;
}

export const positionsStatement = ({ tasks }: TaskTables): Statement<{ taskNos: readonly number[] }, PositionRow> =>
  new Statement(`
  SELECT task_no AS "taskNo", version, state IN ${TERMINAL_LIST} AS ended
    FROM ${tasks} WHERE task_no = ANY($taskNos::bigint[])`);

/** A task that waits for its client. */
export interface OverdueTask {
  taskNo: number;
  scope: TaskScope;
  stateVersion: number;
}

type OverdueRow = TaskScope & { taskNo: string; stateVersion: number };

/** Candidates only: each is decided about under its own lock. */
export const overdueStatement = ({
  tasks,
  leases,
}: TaskTables): Statement<{ agent: string; waitingForMs: number; limit: number; afterTaskNo: number }, OverdueTask> =>
  new Statement(
    `
  SELECT t.task_no AS "taskNo", t.tenant, t.owner, t.task_id AS "taskId", t.state_version AS "stateVersion"
    FROM ${tasks} AS t
   WHERE t.agent = $agent AND t.state IN ${INTERRUPTED_LIST}
     AND t.state_since <= (SELECT clock_timestamp()) - $waitingForMs::double precision * interval '1 millisecond'
     AND NOT EXISTS (SELECT FROM ${leases} AS l WHERE l.task_no = t.task_no)
     AND t.task_no > $afterTaskNo
   ORDER BY t.task_no
   LIMIT $limit`,
    ({ taskNo, stateVersion, ...scope }: OverdueRow) => ({ taskNo: Number(taskNo), stateVersion, scope }),
  );

/**
 * Running tasks that nobody holds a lease on, oldest first. I2: a task and its lease are written in one transaction, so
 * one snapshot of both shows no task whose lease is just being made. A status is never younger than the last change:
 * asking both times keeps to the index on running tasks.
 */
export const withoutLeaseStatement = ({
  tasks,
  leases,
}: TaskTables): Statement<{ agent: string; unchangedForMs: number; limit: number }, TaskScope> =>
  new Statement(`
  SELECT t.tenant, t.owner, t.task_id AS "taskId"
    FROM ${tasks} AS t
   WHERE t.agent = $agent AND t.state NOT IN ${SETTLED_LIST}
     AND t.state_since <= (SELECT clock_timestamp()) - $unchangedForMs::double precision * interval '1 millisecond'
     AND t.updated_at <= (SELECT clock_timestamp()) - $unchangedForMs::double precision * interval '1 millisecond'
     AND NOT EXISTS (SELECT FROM ${leases} AS l WHERE l.task_no = t.task_no)
   ORDER BY t.state_since
   LIMIT $limit`);

/**
 * The statements of one set of tables. Those of turns are prepared: they find their rows by keys, and run many times a
 * second.
 */
export const taskStatements = (tables: TaskTables, database: Pick<ClusterDatabase, 'prepared'>) => ({
  find: database.prepared(findStatement(tables)),
  findByNo: database.prepared(findByNoStatement(tables)),
  findUpTo: database.prepared(findUpToStatement(tables)),
  findByNoUpTo: database.prepared(findByNoUpToStatement(tables)),
  readEvents: database.prepared(readEventsStatement(tables)),
  lock: database.prepared(lockStatement(tables)),
  lockByNo: database.prepared(lockByNoStatement(tables)),
  decide: database.prepared(decideStatement(tables)),
  acquire: database.prepared(acquireStatement(tables)),
  flagCancel: flagCancelStatement(tables),
  savePush: savePushStatement(tables),
  commitDone: commitDoneStatement(tables),
  positions: positionsStatement(tables),
  overdue: overdueStatement(tables),
  withoutLease: withoutLeaseStatement(tables),
});

export type TaskStatements = ReturnType<typeof taskStatements>;
