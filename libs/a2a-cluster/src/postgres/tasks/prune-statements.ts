import { type PruneParams, Statement } from '../connection/statement.js';
import { TERMINAL_LIST } from '../schema/state-lists.js';
import type { TaskTables } from './task-statements.js';

/**
 * I5: only what the snapshot contains and no receiver still needs. Two replicas that prune at once skip each other's
 * rows. Events of a task that was deleted go as well.
 */
export const pruneEventsStatement = ({
  tasks,
  events,
  pushConfigs,
}: TaskTables): Statement<PruneParams, { pruned: number }> =>
  new Statement(`
  WITH old AS MATERIALIZED (
    SELECT e.task_no, e.version
      FROM ${events} AS e LEFT JOIN ${tasks} AS t ON t.task_no = e.task_no
     WHERE e.created_at < (SELECT clock_timestamp()) - $olderThanMs::double precision * interval '1 millisecond'
       AND (t.task_no IS NULL OR e.version <= t.snapshot_version)
       AND NOT EXISTS (
             SELECT FROM ${pushConfigs} AS p
              WHERE p.task_no = e.task_no AND p.failed IS NULL AND p.delivered_version < e.version)
     ORDER BY e.created_at
     LIMIT $limit
       FOR UPDATE OF e SKIP LOCKED
  ), gone AS (
    DELETE FROM ${events} AS e USING old WHERE e.task_no = old.task_no AND e.version = old.version
  )
  SELECT count(*)::integer AS pruned FROM old`);

/**
 * Tasks that ended long ago, with what they have besides events: these may be many, and are pruned as those of any
 * deleted task. Not before their receivers have been told the end, or were given up.
 */
export const pruneTasksStatement = ({
  tasks,
  leases,
  pushConfigs,
  effects,
}: TaskTables): Statement<PruneParams & { agent: string }, { pruned: number }> =>
  new Statement(`
  WITH old AS MATERIALIZED (
    SELECT t.task_no
      FROM ${tasks} AS t
     WHERE t.agent = $agent AND t.state IN ${TERMINAL_LIST}
       AND t.state_since < (SELECT clock_timestamp()) - $olderThanMs::double precision * interval '1 millisecond'
       AND NOT EXISTS (SELECT FROM ${leases} AS l WHERE l.task_no = t.task_no)
       AND NOT EXISTS (
             SELECT FROM ${pushConfigs} AS p
              WHERE p.task_no = t.task_no AND p.failed IS NULL AND p.delivered_version < t.version)
     ORDER BY t.state_since
     LIMIT $limit
       FOR UPDATE OF t SKIP LOCKED
  ), p AS (
    DELETE FROM ${pushConfigs} AS x USING old WHERE x.task_no = old.task_no
  ), x AS (
    DELETE FROM ${effects} AS x USING old WHERE x.task_no = old.task_no
  ), gone AS (
    DELETE FROM ${tasks} AS t USING old WHERE t.task_no = old.task_no
  )
  SELECT count(*)::integer AS pruned FROM old`);

/** Messages that were accepted long ago. */
export const pruneReceiptsStatement = ({
  receipts,
}: Pick<TaskTables, 'receipts'>): Statement<PruneParams, { pruned: number }> =>
  new Statement(`
  WITH old AS MATERIALIZED (
    SELECT tenant, owner, agent, message_id, fingerprint
      FROM ${receipts}
     WHERE created_at < (SELECT clock_timestamp()) - $olderThanMs::double precision * interval '1 millisecond'
     ORDER BY created_at
     LIMIT $limit
       FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM ${receipts} AS r USING old
     WHERE (r.tenant, r.owner, r.agent, r.message_id, r.fingerprint)
         = (old.tenant, old.owner, old.agent, old.message_id, old.fingerprint)
  )
  SELECT count(*)::integer AS pruned FROM old`);

/** The statements of one set of tables. */
export const pruneStatements = (tables: TaskTables) => ({
  events: pruneEventsStatement(tables),
  receipts: pruneReceiptsStatement(tables),
  tasks: pruneTasksStatement(tables),
});
