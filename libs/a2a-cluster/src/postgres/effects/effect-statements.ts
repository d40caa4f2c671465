import type { RecordedEffect, ReplayContract, Settlement } from '../../effects/effect-store.js';
import { type PruneParams, Statement } from '../connection/statement.js';
import { TERMINAL_LIST } from '../schema/state-lists.js';
import { runsOutAt } from '../leases/lease-statements.js';

/** The tables that the effect statements name. */
export interface EffectTables {
  tasks: string;
  leases: string;
  replicas: string;
  effects: string;
}

interface EffectKey {
  taskNo: number;
  turnId: string;
  key: string;
}

interface DispatchParams extends EffectKey {
  replay: ReplayContract;
  attempt: number;
  /** 0 where leases are off. */
  generation: number;
  /** Whether the turn cleans up after a cancel. */
  canceling: boolean;
}

/** Bigint columns arrive as strings, times as text: apps parse them their own way. */
type RecordedRow = Omit<RecordedEffect, 'generation' | 'dispatchedAt'> & { generation: string; dispatchedAt: string };

/** The answer to a dispatch, with the record that was there before. */
interface Dispatched {
  held: boolean;
  canceled: boolean;
  dispatched: boolean;
  before: RecordedEffect | undefined;
}

type DispatchRow = Omit<Dispatched, 'before'> & (RecordedRow | { state: null });

const dispatched = ({ held, canceled, dispatched, ...before }: DispatchRow): Dispatched => ({
  held,
  canceled,
  dispatched,
  before: before.state === null ? undefined : recordedEffect(before),
});

/** An effect as its columns say it. */
export function recordedEffect({ generation, dispatchedAt, ...row }: RecordedRow): RecordedEffect {
  return { ...row, generation: Number(generation), dispatchedAt: new Date(dispatchedAt) };
}

/** The lease `l` has not run out. */
const isAlive = ({ replicas }: EffectTables): string => ` AND ${runsOutAt(replicas, 'l')} > clock_timestamp()`;

const recordedColumns = (x: string): string => `
  ${x}.state, ${x}.replay, ${x}.attempt, ${x}.generation, ${x}.result,
  to_char(${x}.dispatched_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "dispatchedAt"`;

/**
 * I3: the lease of the turn, by generation, so that no claim comes between this and the write that hangs on it. Without
 * leases the task alone, which must not have ended. Parameters: taskNo, generation.
 */
const held = ({ tasks, leases }: EffectTables, fenced: boolean, condition = ''): string =>
  fenced
    ? `SELECT generation, cancel_requested_at IS NOT NULL AS canceled FROM ${leases} AS l
     WHERE generation = $generation AND task_no = $taskNo${condition} FOR KEY SHARE`
    : `SELECT $generation::bigint AS generation, false AS canceled FROM ${tasks}
     WHERE task_no = $taskNo AND state NOT IN ${TERMINAL_LIST} FOR KEY SHARE`;

/**
 * I7: dispatched only under a lease that is alive and not to be canceled, and again only where the record permits it.
 * Only the holder of the lease writes the effects of its turn, so the record before is read without a lock.
 */
export const dispatchStatement = (tables: EffectTables, fenced: boolean): Statement<DispatchParams, Dispatched> =>
  new Statement(
    `
  WITH l AS MATERIALIZED (
    ${held(tables, fenced, isAlive(tables))}
  ), before AS MATERIALIZED (
    SELECT b.key, ${recordedColumns('b')} FROM ${tables.effects} AS b WHERE b.task_no = $taskNo AND b.turn_id = $turnId AND b.key = $key
  ), d AS (
    INSERT INTO ${tables.effects} AS x (task_no, turn_id, key, state, replay, attempt, generation, dispatched_at)
    SELECT $taskNo, $turnId::uuid, $key, 'dispatched', $replay, $attempt::integer, l.generation, clock_timestamp()
      FROM l WHERE NOT l.canceled OR $canceling::boolean
    ON CONFLICT (task_no, turn_id, key) DO UPDATE
       SET state = 'dispatched', replay = EXCLUDED.replay, attempt = EXCLUDED.attempt,
           generation = EXCLUDED.generation, result = NULL, dispatched_at = EXCLUDED.dispatched_at, settled_at = NULL
     WHERE x.state = 'not_performed'
        OR (x.state = 'dispatched' AND x.replay = 'idempotent' AND EXCLUDED.replay = 'idempotent')
    RETURNING key
  )
  SELECT EXISTS (SELECT FROM l) AS held, EXISTS (SELECT FROM l WHERE canceled) AS canceled,
         EXISTS (SELECT FROM d) AS dispatched, before.*
    FROM (VALUES (1)) AS one LEFT JOIN before ON true`,
    dispatched,
  );

/** I3: by the holder of the lease only. Expiry alone refuses nothing, as with events. */
export const settleStatement = (
  tables: EffectTables,
  fenced: boolean,
): Statement<EffectKey & { generation: number; state: Settlement['state']; result: string | null }, { key: string }> =>
  new Statement(`
  WITH l AS MATERIALIZED (
    ${held(tables, fenced)}
  )
  UPDATE ${tables.effects} AS x
     SET state = $state, result = $result, settled_at = clock_timestamp()
    FROM l
   WHERE x.task_no = $taskNo AND x.turn_id = $turnId::uuid AND x.key = $key AND x.state IN ('dispatched', $state)
  RETURNING x.key`);

export const unresolvedStatement = ({
  effects,
}: EffectTables): Statement<{ taskNo: number; turnId: string }, RecordedEffect> =>
  new Statement(
    `
  SELECT x.key, ${recordedColumns('x')}
    FROM ${effects} AS x
   WHERE x.task_no = $taskNo AND x.turn_id = $turnId::uuid AND x.state = 'dispatched'
   ORDER BY x.dispatched_at, x.key`,
    recordedEffect,
  );

/**
 * I3: the fence of a transaction of the user's. The row lock lasts until it commits, and so does the lease: a claim
 * either came before, and this finds nothing, or comes after.
 */
export const fenceStatement = (
  tables: EffectTables,
  fenced: boolean,
): Statement<{ taskNo: number; generation: number }, { canceled: boolean }> =>
  new Statement(held(tables, fenced, isAlive(tables)));

/**
 * The record of a transaction, inserted before its work: another transaction with the same key waits here, and then finds
 * that it was done.
 */
export const beginRecordStatement = ({
  effects,
}: EffectTables): Statement<EffectKey & { attempt: number; generation: number }, { key: string }> =>
  new Statement(`
  INSERT INTO ${effects} (task_no, turn_id, key, state, replay, attempt, generation, dispatched_at, settled_at)
  VALUES ($taskNo, $turnId::uuid, $key, 'succeeded', 'transaction', $attempt::integer, $generation, clock_timestamp(), clock_timestamp())
  ON CONFLICT (task_no, turn_id, key) DO NOTHING
  RETURNING key`);

export const finishRecordStatement = ({ effects }: EffectTables): Statement<EffectKey & { result: string | null }> =>
  new Statement(`
  UPDATE ${effects} SET result = $result, settled_at = clock_timestamp()
   WHERE task_no = $taskNo AND turn_id = $turnId::uuid AND key = $key`);

export const recordedStatement = ({ effects }: EffectTables): Statement<EffectKey, RecordedEffect> =>
  new Statement(
    `
  SELECT x.key, ${recordedColumns('x')}
    FROM ${effects} AS x WHERE x.task_no = $taskNo AND x.turn_id = $turnId::uuid AND x.key = $key`,
    recordedEffect,
  );

/** Effects that nobody can ask for any more: the lease of their turn is gone, and they are old. */
export const pruneEffectsStatement = ({ leases, effects }: EffectTables): Statement<PruneParams, { pruned: number }> =>
  new Statement(`
  WITH old AS MATERIALIZED (
    SELECT x.task_no, x.turn_id, x.key
      FROM ${effects} AS x
     WHERE x.dispatched_at < (SELECT clock_timestamp()) - $olderThanMs::double precision * interval '1 millisecond'
       AND NOT EXISTS (SELECT FROM ${leases} AS l WHERE l.task_no = x.task_no AND l.turn_id = x.turn_id)
     ORDER BY x.dispatched_at
     LIMIT $limit
       FOR UPDATE OF x SKIP LOCKED
  ), gone AS (
    DELETE FROM ${effects} AS x USING old
     WHERE (x.task_no, x.turn_id, x.key) = (old.task_no, old.turn_id, old.key)
  )
  SELECT count(*)::integer AS pruned FROM old`);

/** The statements of one set of tables. */
export const effectStatements = (tables: EffectTables) => ({
  dispatch: { fenced: dispatchStatement(tables, true), unfenced: dispatchStatement(tables, false) },
  settle: { fenced: settleStatement(tables, true), unfenced: settleStatement(tables, false) },
  unresolved: unresolvedStatement(tables),
  fence: { fenced: fenceStatement(tables, true), unfenced: fenceStatement(tables, false) },
  beginRecord: beginRecordStatement(tables),
  finishRecord: finishRecordStatement(tables),
  recorded: recordedStatement(tables),
  prune: pruneEffectsStatement(tables),
});

export type EffectStatements = ReturnType<typeof effectStatements>;
