import { TERMINAL_LIST } from '../schema/state-lists.js';
import { runsOutAt } from '../leases/lease-statements.js';

/** The tables that the effect statements name. */
export interface EffectTables {
  tasks: string;
  leases: string;
  replicas: string;
  effects: string;
}

/** The lease `l` has not run out. */
const isAlive = ({ replicas }: EffectTables): string => ` AND ${runsOutAt(replicas, 'l')} > clock_timestamp()`;

const recordedColumns = (x: string): string => `
  ${x}.state, ${x}.replay, ${x}.attempt, ${x}.generation, ${x}.result,
  to_char(${x}.dispatched_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "dispatchedAt"`;

/**
 * I3: the lease of the turn, by generation, so that no claim comes between this and the write that hangs on it. Without
 * leases the task alone, which must not have ended. `$g` is the generation, $1 the task_no.
 */
const held = ({ tasks, leases }: EffectTables, fenced: boolean, g: string, condition = ''): string =>
  fenced
    ? `SELECT generation, cancel_requested_at IS NOT NULL AS canceled FROM ${leases} AS l
     WHERE generation = ${g} AND task_no = $1${condition} FOR KEY SHARE`
    : `SELECT ${g}::bigint AS generation, false AS canceled FROM ${tasks}
     WHERE task_no = $1 AND state NOT IN ${TERMINAL_LIST} FOR KEY SHARE`;

/**
 * I7: dispatched only under a lease that is alive and not to be canceled, and again only where the record permits it.
 * Nobody but the holder of the lease writes the effects of its turn, so what was there before is read without a lock.
 * $1 task_no, $2 turn id, $3 key, $4 contract, $5 attempt, $6 generation, $7 whether the turn cleans up after a cancel.
 */
export const dispatchStatement = (tables: EffectTables, fenced: boolean): string => `
  WITH l AS MATERIALIZED (
    ${held(tables, fenced, '$6', isAlive(tables))}
  ), before AS MATERIALIZED (
    SELECT ${recordedColumns('b')} FROM ${tables.effects} AS b WHERE b.task_no = $1 AND b.turn_id = $2 AND b.key = $3
  ), d AS (
    INSERT INTO ${tables.effects} AS x (task_no, turn_id, key, state, replay, attempt, generation, dispatched_at)
    SELECT $1, $2::uuid, $3, 'dispatched', $4, $5::integer, l.generation, clock_timestamp()
      FROM l WHERE NOT l.canceled OR $7::boolean
    ON CONFLICT (task_no, turn_id, key) DO UPDATE
       SET state = 'dispatched', replay = EXCLUDED.replay, attempt = EXCLUDED.attempt,
           generation = EXCLUDED.generation, result = NULL, dispatched_at = EXCLUDED.dispatched_at, settled_at = NULL
     WHERE x.state = 'not_performed'
        OR (x.state = 'dispatched' AND x.replay = 'idempotent' AND EXCLUDED.replay = 'idempotent')
    RETURNING key
  )
  SELECT EXISTS (SELECT FROM l) AS held, EXISTS (SELECT FROM l WHERE canceled) AS canceled,
         EXISTS (SELECT FROM d) AS dispatched, before.*
    FROM (VALUES (1)) AS one LEFT JOIN before ON true`;

/**
 * I3: by the holder of the lease only. Expiry alone refuses nothing, as with events.
 * $1 task_no, $2 turn id, $3 key, $4 state, $5 result, $6 generation.
 */
export const settleStatement = (tables: EffectTables, fenced: boolean): string => `
  WITH l AS MATERIALIZED (
    ${held(tables, fenced, '$6')}
  )
  UPDATE ${tables.effects} AS x
     SET state = $4, result = $5, settled_at = clock_timestamp()
    FROM l
   WHERE x.task_no = $1 AND x.turn_id = $2::uuid AND x.key = $3 AND x.state IN ('dispatched', $4)
  RETURNING x.key`;

/** $1 task_no, $2 turn id. */
export const unresolvedStatement = ({ effects }: EffectTables): string => `
  SELECT x.key, ${recordedColumns('x')}
    FROM ${effects} AS x
   WHERE x.task_no = $1 AND x.turn_id = $2::uuid AND x.state = 'dispatched'
   ORDER BY x.dispatched_at, x.key`;

/**
 * I3: the fence of a transaction of the user's. The row lock lasts until it commits, and so does the lease: a claim
 * either came before, and this finds nothing, or comes after.
 * $1 task_no, $2 generation.
 */
export const fenceStatement = (tables: EffectTables, fenced: boolean): string =>
  held(tables, fenced, '$2', isAlive(tables));

/**
 * The record of a transaction, inserted before its work: another transaction with the same key waits here, and then finds
 * that it was done.
 * $1 task_no, $2 turn id, $3 key, $4 attempt, $5 generation.
 */
export const beginRecordStatement = ({ effects }: EffectTables): string => `
  INSERT INTO ${effects} (task_no, turn_id, key, state, replay, attempt, generation, dispatched_at, settled_at)
  VALUES ($1, $2::uuid, $3, 'succeeded', 'transaction', $4::integer, $5, clock_timestamp(), clock_timestamp())
  ON CONFLICT (task_no, turn_id, key) DO NOTHING
  RETURNING key`;

/** $1 task_no, $2 turn id, $3 key, $4 result. */
export const finishRecordStatement = ({ effects }: EffectTables): string => `
  UPDATE ${effects} SET result = $4, settled_at = clock_timestamp()
   WHERE task_no = $1 AND turn_id = $2::uuid AND key = $3`;

/** $1 task_no, $2 turn id, $3 key. */
export const recordedStatement = ({ effects }: EffectTables): string => `
  SELECT x.key, ${recordedColumns('x')}
    FROM ${effects} AS x WHERE x.task_no = $1 AND x.turn_id = $2::uuid AND x.key = $3`;

/**
 * What nobody can ask for any more: the turn is over, since its lease is gone, and was so long ago.
 * $1 ms, $2 limit.
 */
export const pruneEffectsStatement = ({ leases, effects }: EffectTables): string => `
  WITH old AS MATERIALIZED (
    SELECT x.task_no, x.turn_id, x.key
      FROM ${effects} AS x
     WHERE x.dispatched_at < (SELECT clock_timestamp()) - $1::double precision * interval '1 millisecond'
       AND NOT EXISTS (SELECT FROM ${leases} AS l WHERE l.task_no = x.task_no AND l.turn_id = x.turn_id)
     ORDER BY x.dispatched_at
     LIMIT $2
       FOR UPDATE OF x SKIP LOCKED
  ), gone AS (
    DELETE FROM ${effects} AS x USING old
     WHERE (x.task_no, x.turn_id, x.key) = (old.task_no, old.turn_id, old.key)
  )
  SELECT count(*)::integer AS pruned FROM old`;
