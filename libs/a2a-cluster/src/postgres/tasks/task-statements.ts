import { isTask, SCOPE_FIRST } from './task-key.js';
import { leaseColumns, leaseExpiry, runsOutAt } from '../leases/lease-statements.js';
import { firstReceipt } from './receipt-statements.js';
import { INTERRUPTED_LIST, SETTLED_LIST, TERMINAL_LIST } from '../schema/state-lists.js';

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

/** What a load reads: the snapshot and the tail of the log behind it, in one statement and so at one moment. */
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

/** Whose it is, and whether somebody runs it. */
const foundTaskColumns = ({ leases }: TaskTables, t: string): string => `
  ${t}.tenant, ${t}.owner, ${t}.task_id AS "taskId",
  (SELECT l.admitted_version FROM ${leases} AS l WHERE l.task_no = ${t}.task_no) AS "admittedVersion"`;

/** $1 tenant, $2 owner, $3 task id, $4 agent. */
export const findStatement = (tables: TaskTables): string => `
  SELECT ${storedTaskColumns(tables, 't')}, ${foundTaskColumns(tables, 't')}
    FROM ${tables.tasks} AS t
   WHERE ${isTask('t', SCOPE_FIRST)} AND t.agent = $4`;

/** $1 tenant, $2 owner, $3 task id, $4 agent, $5 bytes. */
export const findUpToStatement = (tables: TaskTables): string => `
  SELECT ${storedUpToColumns(tables, 't', '$5')}, ${foundTaskColumns(tables, 't')}
    FROM ${tables.tasks} AS t
   WHERE ${isTask('t', SCOPE_FIRST)} AND t.agent = $4`;

/** $1 task_no, $2 bytes. */
export const findByNoUpToStatement = (tables: TaskTables): string => `
  SELECT ${storedUpToColumns(tables, 't', '$2')}, ${foundTaskColumns(tables, 't')}
    FROM ${tables.tasks} AS t
   WHERE t.task_no = $1`;

/** $1 task_no. */
export const findByNoStatement = (tables: TaskTables): string => `
  SELECT ${storedTaskColumns(tables, 't')}, ${foundTaskColumns(tables, 't')}
    FROM ${tables.tasks} AS t
   WHERE t.task_no = $1`;

/**
 * The first half of every decision about a task: its row lock, which all writers take first. What is decided from is
 * read by the next statement, whose snapshot is younger than the lock.
 * $1 tenant, $2 owner, $3 task id, $4 agent.
 */
export const lockStatement = ({ tasks }: TaskTables): string => `
  SELECT t.task_no AS "taskNo" FROM ${tasks} AS t
   WHERE ${isTask('t', SCOPE_FIRST)} AND t.agent = $4
     FOR UPDATE`;

/** The same by $1 task_no. */
export const lockByNoStatement = ({ tasks }: TaskTables): string => `
  SELECT task_no AS "taskNo" FROM ${tasks} WHERE task_no = $1 FOR UPDATE`;

/**
 * Read under the task lock: the task and its lease as they are now. The lease is locked too, where there is one: a
 * claim in flight is waited for, and then seen as the lease it made, never as no lease (O55).
 * $1 task_no.
 */
export const decideStatement = (tables: TaskTables): string => `
  WITH l AS MATERIALIZED (
    SELECT generation, admitted_version, expires_at, turn_id, holder, follows_holder, claims
      FROM ${tables.leases} WHERE task_no = $1 FOR KEY SHARE
  )
  SELECT ${storedTaskColumns(tables, 't')},
         l.generation AS "leaseGeneration", l.admitted_version AS "admittedVersion",
         l.turn_id AS "leaseTurnId", l.holder AS "leaseHolder", l.claims AS "leaseClaims",
         ${runsOutAt(tables.replicas, 'l')} <= clock_timestamp() AS expired
    FROM ${tables.tasks} AS t LEFT JOIN l ON true
   WHERE t.task_no = $1`;

/** The columns of a new task, but for its number. */
export const taskColumns = `tenant, owner, task_id, agent, context_id, state, state_since, state_version, version,
                            snapshot, snapshot_version, head, head_version`;

/**
 * A new task's first commit. A message that was accepted before inserts no receipt, a taken id no task, and then
 * nothing else either: all hangs on the receipt and the task. Of two runs of one message the second waits for the first
 * one's receipt and then finds it.
 * $1 tenant, $2 owner, $3 task id, $4 agent, $5 context id, $6 state, $7 state_version, $8 snapshot, $9 events (lines),
 * $10 their number, $11 commit id, $12 head or ''; with a lease kind, turn id, holder, ttl, request, context; with a receipt message id,
 * hash, window; with a push receiver config id, config, wire version.
 */
export const createStatement = (
  tables: TaskTables,
  { leased, receipted, pushed }: { leased: boolean; receipted: boolean; pushed: boolean },
): string => {
  const { tasks, events, leases, pushConfigs } = tables;
  const receiptAt = leased ? 19 : 13;
  const pushAt = receiptAt + (receipted ? 3 : 0);
  const values = `$1, $2, $3, $4, $5, $6, clock_timestamp(), $7::integer, $10::integer, $8, $10::integer,
         nullif($12::text, ''), $10::integer`;
  return `
  WITH ${
    receipted
      ? `${firstReceipt(tables, receiptAt)}, t AS (
    INSERT INTO ${tasks} (task_no, ${taskColumns})
    OVERRIDING SYSTEM VALUE
    SELECT r.task_no, ${values} FROM r`
      : `t AS (
    INSERT INTO ${tasks} (${taskColumns})
    VALUES (${values})`
  }
    ON CONFLICT (tenant, owner, task_id) DO NOTHING
    RETURNING task_no
  ), ${
    leased
      ? `l AS (
    INSERT INTO ${leases} (${leaseColumns})
    SELECT task_no, $4, $13, $14::uuid, 0, $15, true, 1, true, ${leaseExpiry('$16')}, $17, $18, NULL FROM t
    RETURNING generation
  ), `
      : ''
  }${
    pushed
      ? `p AS (
    INSERT INTO ${pushConfigs} (task_no, config_id, config, wire_version, delivered_version)
    SELECT task_no, $${pushAt}, $${pushAt + 1}, $${pushAt + 2}, 0 FROM t
  ), `
      : ''
  }e AS (
    INSERT INTO ${events} (task_no, version, event, commit_id)
    SELECT t.task_no, n.version, n.event, $11::uuid FROM t, unnest(${lines('$9')}) WITH ORDINALITY AS n(event, version)
  )
  SELECT task_no AS "taskNo"${leased ? ', (SELECT generation FROM l) AS generation' : ''} FROM t`;
};

/** Which commit: of a writer under a lease or of none, and whether with it the turn ends. */
export interface AppendVariant {
  fenced: boolean;
  endsTurn: boolean;
}

/**
 * I3, I4: every later commit. The task row is locked under the version that the writer knows and only while the task
 * has not ended, then the lease under the writer's generation, and every write hangs on both: a stale version or a stale
 * lease writes nothing at all. The lease is locked with FOR KEY SHARE (stops a claim, lets a renewal pass); the commit
 * that ends the turn takes it away (I2).
 * $1 task_no, $2 expected version, $3 events (lines), $4 commit id, $5 state or null, $6 state_version or null,
 * $7 snapshot or null, $8 number of events, $9 head, '' for none or null for the one before; fenced: $10 generation.
 */
export const appendStatement = ({ tasks, events, leases }: TaskTables, variant: AppendVariant): string => `
  WITH t AS MATERIALIZED (
    SELECT task_no FROM ${tasks}
     WHERE task_no = $1 AND version = $2
       AND state NOT IN ${TERMINAL_LIST}
       FOR UPDATE
  ), ${leaseOfCommit(leases, variant)}u AS (
    UPDATE ${tasks} AS k
       SET ${changeOf({
         count: '$8::integer',
         state: '$5::text',
         stateVersion: '$6::integer',
         snapshot: '$7::text',
         head: '$9::text',
       })}
     WHERE k.task_no = (SELECT task_no FROM ${variant.fenced ? 'l' : 't'})
    RETURNING k.task_no, k.version
  ), e AS (
    INSERT INTO ${events} (task_no, version, event, commit_id)
    SELECT u.task_no, $2 + n.ordinal, n.event, $4::uuid
      FROM u, unnest(${lines('$3')}) WITH ORDINALITY AS n(event, ordinal)
  )
  SELECT version FROM u`;

/**
 * Events as one text: in an array of texts each quotation mark of their JSON would have to be escaped and unescaped, at a
 * cost like that of the JSON itself. JSON has no line breaks of its own.
 */
export const lines = (parameter: string): string => `string_to_array(${parameter}::text, E'\\n')`;

/** The events as such a parameter. */
export const joinLines = (events: readonly string[]): string => events.join('\n');

/** What a commit changes in its task's row `k`. */
export const changeOf = (by: Record<'count' | 'state' | 'stateVersion' | 'snapshot' | 'head', string>): string => `
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

/** The lease as part of a commit, behind the task's lock: its number comes from there. */
function leaseOfCommit(leases: string, { fenced, endsTurn }: AppendVariant): string {
  const ofTask = `task_no = (SELECT task_no FROM t)`;
  const its = fenced ? `generation = $10 AND ${ofTask}` : ofTask;
  if (endsTurn) {
    return `l AS (
    DELETE FROM ${leases} WHERE ${its} RETURNING task_no
  ), `;
  }
  if (!fenced) return '';
  return `l AS MATERIALIZED (
    SELECT task_no FROM ${leases} WHERE ${its} FOR KEY SHARE
  ), `;
}

/** The lease of a follow-up or of a cancel turn, in the transaction that admits it. Columns as in `createStatement`. */
export const acquireStatement = ({ leases }: TaskTables): string => `
  INSERT INTO ${leases} (${leaseColumns})
  VALUES ($1, $2, $3, $4::uuid, $5::integer, $6, true, 1, true, ${leaseExpiry('$7')}, $8, $9,
          CASE WHEN $3 = 'cancel' THEN clock_timestamp() END)
  RETURNING generation`;

/**
 * Under the task lock: the holder is to cancel. The first request counts. What waits for a replica to run it need not
 * wait any longer.
 * $1 task_no.
 */
export const flagCancelStatement = ({ leases }: TaskTables): string => `
  UPDATE ${leases}
     SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()),
         expires_at = CASE WHEN holder IS NULL THEN least(expires_at, clock_timestamp()) ELSE expires_at END
   WHERE task_no = $1`;

/**
 * A push receiver that comes with a follow-up, under its task's lock. One that is there keeps its place in the log; one
 * that was given up, or is through, is due again.
 * $1 task_no, $2 config id, $3 config, $4 wire version, $5 version.
 */
export const savePushStatement = ({ pushConfigs }: Pick<TaskTables, 'pushConfigs'>): string => `
  INSERT INTO ${pushConfigs} AS p (task_no, config_id, config, wire_version, delivered_version)
  VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (task_no, config_id) DO UPDATE
     SET config = EXCLUDED.config, wire_version = EXCLUDED.wire_version, attempts = 0, failed = NULL,
         claimed_until = CASE WHEN p.failed IS NULL AND p.claimed_until < 'infinity' THEN p.claimed_until END`;

/** $1 task_no, $2 commit id, $3 version before it. */
export const commitDoneStatement = ({ events }: TaskTables): string => `
  SELECT max(version) AS version FROM ${events} WHERE task_no = $1 AND version > $3 AND commit_id = $2::uuid`;

/** A page ends with the event that reaches the bytes. $1 task_no, $2 after version, $3 limit, $4 bytes. */
export const readEventsStatement = ({ events }: TaskTables): string => `
  SELECT version, event, bytes
    FROM (SELECT version, event, octet_length(event) AS bytes,
                 sum(octet_length(event)) OVER (ORDER BY version ROWS UNBOUNDED PRECEDING) AS total
            FROM ${events}
           WHERE task_no = $1 AND version > $2
           ORDER BY version
           LIMIT $3) AS page
   WHERE total - bytes < $4
   ORDER BY version`;

/** $1 task numbers. */
export const positionsStatement = ({ tasks }: TaskTables): string => `
  SELECT task_no AS "taskNo", version, state IN ${TERMINAL_LIST} AS ended
    FROM ${tasks} WHERE task_no = ANY($1::bigint[])`;

/**
 * Candidates only: each is decided about under its own lock.
 * $1 agent, $2 ms, $3 limit, $4 the last task_no of the page before.
 */
export const overdueStatement = ({ tasks, leases }: TaskTables): string => `
  SELECT t.task_no AS "taskNo", t.tenant, t.owner, t.task_id AS "taskId", t.state_version AS "stateVersion"
    FROM ${tasks} AS t
   WHERE t.agent = $1 AND t.state IN ${INTERRUPTED_LIST}
     AND t.state_since <= (SELECT clock_timestamp()) - $2::double precision * interval '1 millisecond'
     AND NOT EXISTS (SELECT FROM ${leases} AS l WHERE l.task_no = t.task_no)
     AND t.task_no > $4
   ORDER BY t.task_no
   LIMIT $3`;

/**
 * Running tasks that nobody holds a lease on, oldest first. I2: a task and its lease are written in one transaction, so
 * one snapshot of both shows no task whose lease is just being made. A status is never younger than the last change:
 * asking both times keeps to the index on running tasks.
 * $1 agent, $2 ms, $3 limit.
 */
export const withoutLeaseStatement = ({ tasks, leases }: TaskTables): string => `
  SELECT t.tenant, t.owner, t.task_id AS "taskId"
    FROM ${tasks} AS t
   WHERE t.agent = $1 AND t.state NOT IN ${SETTLED_LIST}
     AND t.state_since <= (SELECT clock_timestamp()) - $2::double precision * interval '1 millisecond'
     AND t.updated_at <= (SELECT clock_timestamp()) - $2::double precision * interval '1 millisecond'
     AND NOT EXISTS (SELECT FROM ${leases} AS l WHERE l.task_no = t.task_no)
   ORDER BY t.state_since
   LIMIT $3`;
