import { INTERRUPTED_LIST, TERMINAL_LIST } from '../database/state-lists.js';
import { isTask } from '../database/task-scope.js';

/** The tables that the lease statements name. */
export interface LeaseTables {
  tasks: string;
  leases: string;
  effects: string;
}

/** `$n` milliseconds from now, by the database's clock. */
const after = (parameter: string): string =>
  `clock_timestamp() + ${parameter}::double precision * interval '1 millisecond'`;

/**
 * I2, I3: an UPDATE, never an upsert, of what this holder still has under the generation it knows: a lease that was
 * released or claimed matches nothing and does not come back. No key changes, so it passes a commit's FOR KEY SHARE.
 * $1 holder, $2 generations, $3 ttl.
 */
export const renewStatement = ({ leases }: LeaseTables): string => `
  UPDATE ${leases}
     SET expires_at = ${after('$3')}, renewed_at = clock_timestamp()
   WHERE holder = $1 AND generation = ANY($2::bigint[])
  RETURNING generation, cancel_requested_at IS NOT NULL AS "cancelRequested"`;

/** The scope in the parameters of a claim. */
const CLAIMED_TASK = { tenant: '$5', owner: '$6', taskId: '$7' };

/**
 * I1, I3: lease rows alone, SKIP LOCKED, committed before any task is touched. The row lock re-checks the expiry, so a
 * renewal that came first wins; the new generation fences the last holder out; everything else on the row survives.
 * Waiting for a replica (no holder) is not an attempt.
 * $1 agent, $2 holder, $3 ttl, $4 limit; one task only: $5 tenant, $6 owner, $7 task id, or null; only what is not run
 * again: $8 number of attempts, or null (a filter: what becomes of it is decided once it is claimed); $9 whether its request
 * is wanted.
 */
export const claimStatement = ({ tasks, leases, effects }: LeaseTables): string => `
  WITH abandoned AS MATERIALIZED (
    SELECT generation, task_no, holder, renewed_at, attempt
      FROM ${leases} AS f
     WHERE agent = $1 AND expires_at <= clock_timestamp()
       AND ($7::text IS NULL
            OR task_no = (SELECT k.task_no FROM ${tasks} AS k WHERE ${isTask('k', CLAIMED_TASK)}))
       AND ($8::integer IS NULL OR cancel_requested_at IS NOT NULL OR kind = 'cancel'
            OR attempt + (holder IS NOT NULL)::integer > $8
            OR EXISTS (SELECT FROM ${tasks} AS k
                        WHERE k.task_no = f.task_no
                          AND (k.state IN ${TERMINAL_LIST}
                               OR k.state IN ${INTERRUPTED_LIST}
                                  AND k.state_version > f.admitted_version))
            OR EXISTS (SELECT FROM ${effects} AS x
                        WHERE x.task_no = f.task_no AND x.turn_id = f.turn_id
                          AND x.state = 'dispatched' AND x.replay = 'never'))
     ORDER BY expires_at
     LIMIT $4
       FOR UPDATE SKIP LOCKED
  )
  UPDATE ${leases} AS l
     SET generation = DEFAULT, holder = $2, attempt = l.attempt + (l.holder IS NOT NULL)::integer,
         expires_at = ${after('$3')}, acquired_at = clock_timestamp(), renewed_at = clock_timestamp()
    FROM abandoned AS a LEFT JOIN ${tasks} AS t ON t.task_no = a.task_no
   WHERE l.generation = a.generation
  RETURNING l.generation, t.tenant, t.owner, t.task_id AS "taskId", l.kind, l.turn_id AS "turnId",
            l.admitted_version AS "admittedVersion", l.attempt,
            l.cancel_requested_at IS NOT NULL AS "cancelRequested",
            a.holder AS "lastHolder", CASE WHEN $9::boolean THEN l.request END AS request,
            CASE WHEN $9::boolean THEN l.context ELSE '' END AS context,
            to_char(a.renewed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "lastRenewedAt"`;

/**
 * I2: the task lock first, so that nobody decides about the task between its last event and the end of its lease (the
 * count only makes the lock happen: a lease whose task was deleted goes as well).
 * $1 generation.
 */
export const releaseStatement = ({ tasks, leases }: LeaseTables): string => `
  WITH t AS MATERIALIZED (
    SELECT task_no FROM ${tasks}
     WHERE task_no = (SELECT l.task_no FROM ${leases} AS l WHERE l.generation = $1)
       FOR UPDATE
  )
  DELETE FROM ${leases}
   WHERE generation = $1 AND (SELECT count(*) FROM t) >= 0
  RETURNING generation`;

/**
 * I3: a new generation fences the holder out as a claim does, whatever it may still have under way. A claim of a lease
 * without a holder is no new attempt.
 * $1 generation, $2 ms until it can be claimed.
 */
export const handOverStatement = ({ leases }: LeaseTables): string => `
  UPDATE ${leases}
     SET generation = DEFAULT, holder = NULL, expires_at = ${after('$2')}
   WHERE generation = $1
  RETURNING generation`;

/**
 * The claim undone, but for the generation, which only grows, and the time at which it can be claimed.
 * $1 generation, $2 ms until then; as it was found: $3 holder, $4 attempt, $5 last renewal.
 */
export const putBackStatement = ({ leases }: LeaseTables): string => `
  UPDATE ${leases}
     SET generation = DEFAULT, holder = $3, attempt = $4, renewed_at = $5::timestamptz, expires_at = ${after('$2')}
   WHERE generation = $1
  RETURNING generation`;

/**
 * A look without a lock: a hint, acted on through fenced statements only. A lease whose task is gone is none: a task and
 * its first lease are inserted by one statement, so there is no lease before its task.
 * $1 generations.
 */
export const inspectStatement = ({ leases, tasks }: LeaseTables): string => `
  SELECT l.generation, l.cancel_requested_at IS NOT NULL AS "cancelRequested"
    FROM ${leases} AS l
   WHERE l.generation = ANY($1::bigint[]) AND EXISTS (SELECT FROM ${tasks} AS t WHERE t.task_no = l.task_no)`;

/** The columns of a new lease; the caller's statement gives the rows. */
export const leaseColumns =
  'task_no, agent, kind, turn_id, admitted_version, holder, attempt, expires_at, request, context, cancel_requested_at';

/** Expiry of a new lease: `$n` ms from now. */
export const leaseExpiry = after;
