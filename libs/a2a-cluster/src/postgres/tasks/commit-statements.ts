import { leaseColumns, leaseExpiry } from '../leases/lease-statements.js';
import { joinLines, lines, RowList } from '../connection/row-list.js';
import { Statement } from '../connection/statement.js';
import { TERMINAL_LIST } from '../schema/state-lists.js';
import { takeOver, taskNumbers } from './receipt-statements.js';
import { isTask } from './task-key.js';
import type { TaskTables } from './task-statements.js';

/** A new task's first commit, as its statement takes it. */
export interface FirstCommitRow {
  tenant: string;
  owner: string;
  task_id: string;
  context_id: string;
  state: string;
  state_version: number;
  snapshot: string;
  /** Undefined: no head is stored. */
  head: string | undefined;
  /** How many events. */
  count: number;
  commit_id: string;
  /** The receipt; none where it is undefined. */
  message_id: string | undefined;
  fingerprint: string | undefined;
  /** The lease; none where it is undefined. */
  kind: string | undefined;
  turn_id: string | undefined;
  holder: string | undefined;
  ttl: number | undefined;
  request: string | null | undefined;
  context: string | undefined;
  /** The push receiver; none where it is undefined. */
  config_id: string | undefined;
  config: string | undefined;
  wire_version: string | undefined;
}

/** A later commit, as its statement takes it. What is undefined stays as it is. */
export interface LaterCommitRow {
  task_no: number;
  version: number;
  /** The lease that permits it. Undefined: only the version guards it. */
  generation: number | undefined;
  /** The turn ends with it: the task's lease goes. */
  ends: boolean;
  count: number;
  commit_id: string;
  state: string | undefined;
  state_version: number | undefined;
  snapshot: string | undefined;
  /** '': no head is stored. */
  head: string | undefined;
}

/** A commit with its events as they are stored. */
export interface CommitOf<Row> {
  row: Row;
  events: readonly string[];
}

const FIRST_COMMITS = new RowList<FirstCommitRow>({
  tenant: 'text',
  owner: 'text',
  task_id: 'text',
  context_id: 'text',
  state: 'text',
  state_version: 'integer',
  snapshot: 'lines',
  head: 'lines',
  count: 'integer',
  commit_id: 'uuid',
  message_id: 'text',
  fingerprint: 'text',
  kind: 'text',
  turn_id: 'uuid',
  holder: 'text',
  ttl: 'double precision',
  request: 'lines',
  context: 'text',
  config_id: 'text',
  config: 'text',
  wire_version: 'text',
});

const LATER_COMMITS = new RowList<LaterCommitRow>({
  task_no: 'bigint',
  version: 'integer',
  generation: 'bigint',
  ends: 'boolean',
  count: 'integer',
  commit_id: 'uuid',
  state: 'text',
  state_version: 'integer',
  snapshot: 'lines',
  head: 'text',
});

/** The parameters of every statement beside the commits themselves. */
interface CommitParams {
  /** How many commits there are. */
  number: number;
  /**
   * How long it stands before a lock that others hold, as PostgreSQL writes it. Undefined: as long as the session may.
   */
  lockTimeout: string | undefined;
  /** Of each event the position of its commit, its place in it, and itself. */
  commitAt: number[];
  place: number[];
  event: string;
}

function commitParams(commits: readonly CommitOf<object>[], lockTimeoutMs: number | undefined): CommitParams {
  return {
    number: commits.length,
    lockTimeout: lockTimeoutMs?.toString(),
    commitAt: commits.flatMap(({ events }, at) => events.map(() => at + 1)),
    place: commits.flatMap(({ events }) => events.map((_event, place) => place + 1)),
    event: joinLines(commits.flatMap(({ events }) => events)),
  };
}

/**
 * The commits as rows `i`. LIMIT changes nothing but what the planner expects: otherwise it takes the list for ten rows,
 * finds that worth reading a table that is still small as a whole, and a prepared statement keeps to that while the table
 * grows. The lock time-out is that of this statement alone.
 */
const commitsFrom = (list: { as(alias: string): string }): string => `
    (SELECT CASE WHEN $lockTimeout::text IS NOT NULL THEN set_config('lock_timeout', $lockTimeout, true) END) AS bound,
           ${list.as('i')}
     LIMIT $number`;

const EVENTS = `unnest($commitAt::integer[], $place::integer[], ${lines('$event')}) AS n(at, place, event)`;

type FirstCommitParams = Record<keyof FirstCommitRow, unknown> & CommitParams & { agent: string; windowMs: number };

/** A first commit that was made: its position in the list, and its keys. */
export interface MadeTask {
  at: number;
  taskNo: number;
  generation: number | undefined;
}

export const firstCommitParams = (
  commits: readonly CommitOf<FirstCommitRow>[],
  { agent, windowMs, lockTimeoutMs }: { agent: string; windowMs: number; lockTimeoutMs?: number },
): FirstCommitParams => ({
  ...FIRST_COMMITS.params(commits.map(({ row }) => row)),
  ...commitParams(commits, lockTimeoutMs),
  agent,
  windowMs,
});

/**
 * The first commits of new tasks, each with what comes with it: receipt, lease, push receiver. A message that was accepted
 * before inserts no receipt, a taken id no task, and then nothing else either: all hangs on the receipt and the task. What
 * keeps one commit from being made keeps it alone: it is missing among the answers.
 *
 * Receipts are inserted in the order of their keys: of two statements with the same messages one waits for the other at the
 * first of them, and none holds what the other waits for. Of two runs of one message the second waits for the first one's
 * receipt and then finds it.
 */
export const firstCommitsStatement = (tables: TaskTables): Statement<FirstCommitParams, MadeTask> => {
  const { tasks, events, leases, receipts, pushConfigs } = tables;
  const scope = { tenant: 'a.tenant', owner: 'a.owner', taskId: 'a.task_id' };
  return new Statement(
    `
  WITH a AS MATERIALIZED (
    SELECT nextval((SELECT ${taskNumbers(tables)}::regclass)) AS task_no, i.* FROM ${commitsFrom(FIRST_COMMITS)}
  ), r AS (
    INSERT INTO ${receipts} AS r (tenant, owner, agent, message_id, fingerprint, task_no, created_at)
    SELECT a.tenant, a.owner, $agent, a.message_id, a.fingerprint, a.task_no, clock_timestamp()
      FROM a
     WHERE a.message_id IS NOT NULL AND NOT EXISTS (SELECT FROM ${tasks} AS k WHERE ${isTask('k', scope)} OFFSET 0)
     ORDER BY a.tenant, a.owner, a.message_id, a.fingerprint
    ${takeOver('$windowMs')}
  ), t AS (
    INSERT INTO ${tasks} (task_no, ${taskColumns})
    OVERRIDING SYSTEM VALUE
    SELECT a.task_no, a.tenant, a.owner, a.task_id, $agent, a.context_id, a.state, clock_timestamp(), a.state_version,
           a.count, a.snapshot, a.count, a.head, a.count
      FROM a
     WHERE a.message_id IS NULL OR a.task_no IN (SELECT r.task_no FROM r)
    ON CONFLICT (tenant, owner, task_id) DO NOTHING
    RETURNING task_no
  ), l AS (
    INSERT INTO ${leases} (${leaseColumns})
    SELECT a.task_no, $agent, a.kind, a.turn_id, 0, a.holder, true, 1, true, ${leaseExpiry('a.ttl')}, a.request,
           a.context, NULL
      FROM t JOIN a USING (task_no)
     WHERE a.kind IS NOT NULL
    RETURNING task_no, generation
  ), p AS (
    INSERT INTO ${pushConfigs} (task_no, config_id, config, wire_version, delivered_version)
    SELECT a.task_no, a.config_id, a.config, a.wire_version, 0
      FROM t JOIN a USING (task_no)
     WHERE a.config_id IS NOT NULL
  ), e AS (
    INSERT INTO ${events} (task_no, version, event, commit_id)
    SELECT a.task_no, n.place, n.event, a.commit_id FROM t JOIN a USING (task_no) JOIN ${EVENTS} USING (at)
  )
  SELECT a.at::integer AS at, a.task_no AS "taskNo", l.generation
    FROM t JOIN a USING (task_no) LEFT JOIN l USING (task_no)`,
    ({ at, taskNo, generation }: { at: number; taskNo: string; generation: string | null }) => ({
      at,
      taskNo: Number(taskNo),
      generation: generation === null ? undefined : Number(generation),
    }),
  );
};

/** The columns of a new task, but for its number. */
const taskColumns = `tenant, owner, task_id, agent, context_id, state, state_since, state_version, version,
                     snapshot, snapshot_version, head, head_version`;

/** The columns that a commit changes in its task's row `k`. */
const changeOf = (by: Record<'count' | 'state' | 'stateVersion' | 'snapshot' | 'head', string>): string => `
           version = k.version + ${by.count},
           state = coalesce(${by.state}, k.state),
           state_since = CASE WHEN ${by.state} IS NULL THEN k.state_since ELSE clock_timestamp() END,
           state_version = coalesce(${by.stateVersion}, k.state_version),
           snapshot = coalesce(${by.snapshot}, k.snapshot),
           snapshot_version = CASE WHEN ${by.snapshot} IS NULL THEN k.snapshot_version ELSE k.version + ${by.count} END,
           head = nullif(coalesce(${by.head}, k.head), ''),
           head_version = CASE WHEN ${by.head} IS NOT NULL OR k.head_version = k.version THEN k.version + ${by.count}
                               ELSE k.head_version END,
           updated_at = clock_timestamp()`;

type LaterCommitAlone = LaterCommitRow & { event: string; fenced: boolean };

export const laterCommitParams = ({ row, events }: CommitOf<LaterCommitRow>): LaterCommitAlone => ({
  ...row,
  event: joinLines(events),
  fenced: row.generation !== undefined,
});

/**
 * I3, I4: a later commit of a task. The task's row is locked under the version that the writer knows, and only while the
 * task has not ended; then the lease under the writer's generation; and all that the commit writes hangs on both. A stale
 * version or a stale lease writes nothing at all, and answers nothing. The lease is locked with FOR KEY SHARE, which stops a
 * claim and lets a renewal pass. The commit that ends the turn takes the lease away (I2).
 *
 * It waits for locks. As a list of one it would cost a stream an eighth of its events: so it has a text of its own.
 */
export const laterCommitStatement = (
  { tasks, events, leases }: TaskTables,
  endsTurn: boolean,
): Statement<LaterCommitAlone, { version: number }> => {
  const lease = endsTurn
    ? `(
    DELETE FROM ${leases}
     WHERE task_no = (SELECT task_no FROM t) AND (NOT $fenced::boolean OR generation = $generation)
    RETURNING task_no
  )`
    : `MATERIALIZED (
    SELECT task_no FROM ${leases}
     WHERE generation = $generation AND task_no = (SELECT task_no FROM t) FOR KEY SHARE
  )`;
  return new Statement(`
  WITH t AS MATERIALIZED (
    SELECT task_no FROM ${tasks}
     WHERE task_no = $task_no AND version = $version
       AND state NOT IN ${TERMINAL_LIST}
       FOR UPDATE
  ), l AS ${lease}, u AS (
    UPDATE ${tasks} AS k
       SET ${changeOf({
         count: '$count::integer',
         state: '$state::text',
         stateVersion: '$state_version::integer',
         snapshot: '$snapshot::text',
         head: '$head::text',
       })}
     WHERE k.task_no = coalesce((SELECT task_no FROM l), (SELECT task_no FROM t WHERE NOT $fenced::boolean))
    RETURNING k.task_no, k.version
  ), e AS (
    INSERT INTO ${events} (task_no, version, event, commit_id)
    SELECT u.task_no, $version + n.place, n.event, $commit_id::uuid
      FROM u, unnest(${lines('$event')}) WITH ORDINALITY AS n(event, place)
  )
  SELECT version FROM u`);
};

type LaterCommits = Record<keyof LaterCommitRow, unknown> & CommitParams;

export const laterCommitsParams = (
  commits: readonly CommitOf<LaterCommitRow>[],
  lockTimeoutMs: number,
): LaterCommits => ({
  ...LATER_COMMITS.params(commits.map(({ row }) => row)),
  ...commitParams(commits, lockTimeoutMs),
});

/**
 * I3, I4: later commits of several turns under their leases, each as in `laterCommitStatement`. But what others have locked
 * is not waited for: such a commit is missing among the answers, and goes alone. So the group neither stands in a
 * transaction of one of its tasks, nor has a part in a deadlock with those who lock leases in another order. Only where a
 * lease was renewed since the statement began does SKIP LOCKED wait for a claim under way, which is a single statement and
 * waits for nobody.
 */
export const laterCommitsStatement = ({
  tasks,
  events,
  leases,
}: TaskTables): Statement<LaterCommits, { at: number; version: number }> => {
  const lease = `SELECT generation FROM ${leases} WHERE generation = t.generation AND task_no = t.task_no`;
  return new Statement(`
  WITH a AS MATERIALIZED (
    SELECT i.* FROM ${commitsFrom(LATER_COMMITS)}
  ), t AS MATERIALIZED (
    SELECT a.* FROM a CROSS JOIN LATERAL (
      SELECT FROM ${tasks}
       WHERE task_no = a.task_no AND version = a.version
         AND state NOT IN ${TERMINAL_LIST}
         FOR UPDATE SKIP LOCKED OFFSET 0
    ) AS locked
  ), kept AS MATERIALIZED (
    SELECT t.at FROM t CROSS JOIN LATERAL (${lease} FOR KEY SHARE SKIP LOCKED OFFSET 0) AS locked
     WHERE NOT t.ends
  ), ended AS (
    DELETE FROM ${leases} AS x
     USING t CROSS JOIN LATERAL (${lease} FOR UPDATE SKIP LOCKED OFFSET 0) AS locked
     WHERE t.ends AND x.generation = locked.generation
    RETURNING t.at
  ), u AS (
    UPDATE ${tasks} AS k
       SET ${changeOf({
         count: 't.count',
         state: 't.state',
         stateVersion: 't.state_version',
         snapshot: 't.snapshot',
         head: 't.head',
       })}
      FROM (SELECT at FROM kept UNION ALL SELECT at FROM ended) AS l JOIN t USING (at)
     WHERE k.task_no = t.task_no
    RETURNING k.task_no, k.version, t.version AS before, t.commit_id, at
  ), e AS (
    INSERT INTO ${events} (task_no, version, event, commit_id)
    SELECT u.task_no, u.before + n.place, n.event, u.commit_id FROM u JOIN ${EVENTS} USING (at)
  )
  SELECT at::integer AS at, version FROM u`);
};
