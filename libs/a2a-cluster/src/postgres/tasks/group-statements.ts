import { TERMINAL_LIST } from '../schema/state-lists.js';
import { isTask } from './task-key.js';
import { leaseColumns, leaseExpiry } from '../leases/lease-statements.js';
import { takeOver, taskNumbers } from './receipt-statements.js';
import { changeOf, joinLines, lines, taskColumns, type TaskTables } from './task-statements.js';

/** What a first commit says of its task, with the types of the parameters. No kind: no lease. */
const FIRST_COMMIT = {
  ...{ tenant: 'text', owner: 'text', task_id: 'text', context_id: 'text', state: 'text', state_version: 'integer' },
  ...{ snapshot: 'text', count: 'integer', commit_id: 'uuid', message_id: 'text', fingerprint: 'text' },
  ...{ kind: 'text', turn_id: 'uuid', holder: 'text', ttl: 'double precision', request: 'text', context: 'text' },
  head: 'text',
};

/** The same of a later commit. */
const LATER_COMMIT = {
  ...{ task_no: 'bigint', version: 'integer', generation: 'bigint', ends: 'boolean', count: 'integer' },
  ...{ commit_id: 'uuid', state: 'text', state_version: 'integer', snapshot: 'text' },
  head: 'text',
};

export type FirstCommitRow = Record<keyof typeof FIRST_COMMIT, unknown>;
export type LaterCommitRow = Record<keyof typeof LATER_COMMIT, unknown>;

/** A commit of a group, and its events as they are stored. */
export interface GroupedCommit<Row> {
  row: Row;
  events: readonly string[];
}

/** The columns, each a list, then their length; then all events, each with the position of its commit and its place. */
function paramsOf<Row extends object>(types: Record<keyof Row, string>, commits: readonly GroupedCommit<Row>[]) {
  const names = Object.keys(types) as (keyof Row)[];
  return [
    ...names.map((name) => commits.map(({ row }) => row[name])),
    commits.length,
    commits.flatMap(({ events }, at) => events.map(() => at + 1)),
    commits.flatMap(({ events }) => events.map((_event, place) => place + 1)),
    joinLines(commits.flatMap(({ events }) => events)),
  ];
}

/** How long a group stands before a lock that others hold, in ms: then its commits go alone, and one of them waits. */
const LOCK_TIMEOUT_MS = 100;

/**
 * The parameters as tables; the lock time-out is that of this statement alone. LIMIT changes nothing but what the planner
 * expects: else it takes the list for ten rows, finds that worth reading a table that is still small as a whole, and a
 * prepared statement keeps to that while the table grows.
 */
function tablesOf(types: Record<string, string>) {
  const names = Object.keys(types);
  const lists = names.map((name, at) => `$${at + 1}::${types[name]}[]`).join(', ');
  const next = names.length + 1;
  return {
    commits: `(SELECT set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true)) AS bound,
           unnest(${lists}) WITH ORDINALITY AS i(${names.join(', ')}, at)
     LIMIT $${next}`,
    events: `unnest($${next + 1}::integer[], $${next + 2}::integer[], ${lines(`$${next + 3}`)}) AS n(at, place, event)`,
    next: next + 4,
  };
}

export const createAllParams = (
  commits: readonly GroupedCommit<FirstCommitRow>[],
  { agent, windowMs }: { agent: string; windowMs: number },
): unknown[] => [...paramsOf(FIRST_COMMIT, commits), agent, windowMs];

/**
 * The first commits of several new tasks, each with its receipt. What keeps one of them from being made keeps it alone:
 * it is missing among the answers. Receipts are inserted in the order of their keys: of two groups with the same messages
 * one waits for the other at the first of them, and none holds what the other waits for.
 */
export const createAllStatement = (tables: TaskTables): string => {
  const { tasks, events, leases, receipts } = tables;
  const { commits, events: theirEvents, next } = tablesOf(FIRST_COMMIT);
  const [agent, windowMs] = [`$${next}`, `$${next + 1}`];
  const scope = { tenant: 'a.tenant', owner: 'a.owner', taskId: 'a.task_id' };
  return `
  WITH a AS MATERIALIZED (
    SELECT nextval((SELECT ${taskNumbers(tables)}::regclass)) AS task_no, i.* FROM ${commits}
  ), r AS (
    INSERT INTO ${receipts} AS r (tenant, owner, agent, message_id, fingerprint, task_no, created_at)
    SELECT a.tenant, a.owner, ${agent}, a.message_id, a.fingerprint, a.task_no, clock_timestamp()
      FROM a
     WHERE NOT EXISTS (SELECT FROM ${tasks} AS k WHERE ${isTask('k', scope)} OFFSET 0)
     ORDER BY a.tenant, a.owner, a.message_id, a.fingerprint
    ${takeOver(windowMs)}
  ), t AS (
    INSERT INTO ${tasks} (task_no, ${taskColumns})
    OVERRIDING SYSTEM VALUE
    SELECT a.task_no, a.tenant, a.owner, a.task_id, ${agent}, a.context_id, a.state, clock_timestamp(), a.state_version,
           a.count, a.snapshot, a.count, nullif(a.head, ''), a.count
      FROM r JOIN a USING (task_no)
    ON CONFLICT (tenant, owner, task_id) DO NOTHING
    RETURNING task_no
  ), l AS (
    INSERT INTO ${leases} (${leaseColumns})
    SELECT a.task_no, ${agent}, a.kind, a.turn_id, 0, a.holder, true, 1, true, ${leaseExpiry('a.ttl')}, a.request,
           a.context, NULL
      FROM t JOIN a USING (task_no)
     WHERE a.kind IS NOT NULL
    RETURNING task_no, generation
  ), e AS (
    INSERT INTO ${events} (task_no, version, event, commit_id)
    SELECT a.task_no, n.place, n.event, a.commit_id FROM t JOIN a USING (task_no) JOIN ${theirEvents} USING (at)
  )
  SELECT a.at::integer AS at, a.task_no AS "taskNo", l.generation
    FROM t JOIN a USING (task_no) LEFT JOIN l USING (task_no)`;
};

export const appendAllParams = (commits: readonly GroupedCommit<LaterCommitRow>[]): unknown[] =>
  paramsOf(LATER_COMMIT, commits);

/**
 * I3, I4: the later commits of several turns, each as in `appendStatement`: its task's row locked under its version, then
 * its lease under its generation, and all that it writes hangs on both. But what is locked by others is not waited for: it
 * is missing among the answers and goes alone. So the group neither stands in a transaction of one of its tasks, nor has a
 * part in a deadlock with those who lock leases in another order (a renewal). Only where a lease was renewed since the
 * statement began does SKIP LOCKED wait for a claim under way, which is a single statement and waits for nobody.
 */
export const appendAllStatement = ({ tasks, events, leases }: TaskTables): string => {
  const { commits, events: theirEvents } = tablesOf(LATER_COMMIT);
  const lease = `SELECT generation FROM ${leases} WHERE generation = t.generation AND task_no = t.task_no`;
  return `
  WITH a AS MATERIALIZED (
    SELECT i.* FROM ${commits}
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
    SELECT u.task_no, u.before + n.place, n.event, u.commit_id FROM u JOIN ${theirEvents} USING (at)
  )
  SELECT at::integer AS at, version FROM u`;
};
