import type { ClaimedLease } from '../../leases/lease-store.js';
import { Statement } from '../connection/statement.js';
import { INTERRUPTED_LIST, TERMINAL_LIST } from '../schema/state-lists.js';
import { isTask } from '../tasks/task-key.js';

/** The tables that the lease statements name. */
export interface LeaseTables {
  tasks: string;
  leases: string;
  replicas: string;
  effects: string;
}

/** The answer of a renewal about its replica's row. */
export interface Renewal {
  /** The same for as long as the row has not run out between two renewals. */
  unbroken: string;
  /** In seconds since 1970. */
  renewedAt: string;
}

/** One of the generations that a renewal was for, where there is something to say of it. */
export interface LookedLease {
  generation: number;
  /** It is gone; otherwise its turn is to be canceled. */
  lost: boolean;
}

/** A lease as a look finds it. */
export interface InspectedLease {
  generation: number;
  cancelRequested: boolean;
}

/** The parameters of a claim. */
interface ClaimParams {
  agent: string;
  holder: string;
  ttlMs: number;
  limit: number;
  /** One task only; all three, or none. */
  tenant: string | undefined;
  owner: string | undefined;
  taskId: string | undefined;
  /** Only what is not run again after so many attempts. A filter: what becomes of it is decided once it is claimed. */
  endingAfterAttempts: number | undefined;
  /** Whether its request and its context are wanted. */
  withRequest: boolean;
}

/** So many milliseconds from now, by the database's clock. */
const after = (parameter: string): string =>
  `clock_timestamp() + ${parameter}::double precision * interval '1 millisecond'`;

/**
 * When a lease `l` runs out: at its own time, or at its holder's where that is later and the lease follows it. Everything
 * that asks whether a lease is alive asks by this.
 */
export const runsOutAt = (replicas: string, l: string): string =>
  `greatest(${l}.expires_at,
         (SELECT h.expires_at FROM ${replicas} AS h WHERE h.holder = ${l}.holder AND ${l}.follows_holder))`;

/** Renews a replica's row `r`. A row that had run out counts one lapse more. */
const renewed = (ttl: string): string => `
         lapses = r.lapses + (r.expires_at <= clock_timestamp())::integer,
         expires_at = ${after(ttl)}, renewed_at = clock_timestamp()`;

/**
 * `unbroken` is the same for as long as the row has not run out between two renewals: so long nobody can have claimed a
 * lease that follows it. The time is in seconds; both are text, since apps parse numbers their own way.
 */
const renewalColumns = `extract(epoch FROM r.started_at)::text || ' ' || r.lapses AS unbroken,
            extract(epoch FROM r.renewed_at)::text AS "renewedAt"`;

/**
 * I3: one row for each replica, however many leases follow it. No lease row is locked, written or waited for: what others do
 * to one of them holds up no renewal, and old snapshots keep versions of this one row only. A claim holds the row FOR SHARE
 * while it takes leases of an expired holder, which this UPDATE waits for; the look that comes after it then sees the claim.
 * Nobody else locks the row. Somebody who locks it by hand holds up all renewals of the replica.
 */
export const renewStatement = ({ replicas }: LeaseTables): Statement<{ holder: string; ttlMs: number }, Renewal> =>
  new Statement(`
  UPDATE ${replicas} AS r
     SET ${renewed('$ttlMs')}
   WHERE r.holder = $holder
  RETURNING ${renewalColumns}`);

/**
 * I2, I3: where the replica has no row (it boots, or the row was pruned or lost). A claim that does not see the row either
 * goes by the lease's own time: so the leases are renewed in the same transaction. Whoever locks a lease first decides: a
 * claim that comes later finds its own time ahead, or skips it; one that came before has changed the generation, and this
 * UPDATE matches nothing. Never an upsert of leases: one that was released does not come back.
 */
export const registerStatement = ({
  replicas,
  leases,
}: LeaseTables): Statement<{ holder: string; ttlMs: number; generations: readonly number[] }, Renewal> =>
  new Statement(`
  WITH r AS MATERIALIZED (
    INSERT INTO ${replicas} AS r (holder, started_at, renewed_at, expires_at)
    VALUES ($holder, clock_timestamp(), clock_timestamp(), ${after('$ttlMs')})
    ON CONFLICT (holder) DO UPDATE SET ${renewed('$ttlMs')}
    RETURNING ${renewalColumns}
  ), l AS (
    UPDATE ${leases} AS l SET expires_at = ${after('$ttlMs')}
     WHERE l.holder = $holder AND l.generation = ANY($generations::bigint[]) AND (SELECT count(*) FROM r) = 1
  )
  SELECT * FROM r`);

/**
 * What is left to say of the leases that a renewal was for: which are gone, and which are to be canceled. A statement of its
 * own, sent once the renewal is committed: its snapshot then shows every claim that rested on the time before, and a claim
 * that comes later finds the new one. By keys, without a lock.
 */
export const lookStatement = ({
  leases,
}: LeaseTables): Statement<{ holder: string; generations: readonly number[] }, LookedLease> =>
  new Statement(
    `
  SELECT n.generation, l.generation IS NULL AS lost
    FROM unnest($generations::bigint[]) AS n(generation)
         LEFT JOIN ${leases} AS l ON l.generation = n.generation AND l.holder = $holder AND l.follows_holder
   WHERE l.generation IS NULL OR l.cancel_requested_at IS NOT NULL`,
    numbered<LookedLease>,
  );

/**
 * I6: leases of this replica that it does not know of (the answer of a claim was lost), or has given up, follow it no
 * longer: they run out now, or at their own time where that is later, whatever else it renews. What was acquired later than
 * nine tenths of the TTL before the renewal was asked for may still be on its way to it.
 */
export const disownStatement = ({
  leases,
}: LeaseTables): Statement<{ holder: string; generations: readonly number[]; renewedAt: string; marginMs: number }> =>
  new Statement(`
  UPDATE ${leases} AS l
     SET follows_holder = false, expires_at = greatest(l.expires_at, clock_timestamp()),
         renewed_at = to_timestamp($renewedAt::double precision)
    FROM (SELECT o.generation
            FROM ${leases} AS o
           WHERE o.holder = $holder AND o.follows_holder
             AND o.expires_at <= to_timestamp($renewedAt::double precision) + $marginMs::double precision * interval '1 millisecond'
             AND NOT EXISTS (SELECT FROM unnest($generations::bigint[]) AS n(generation) WHERE n.generation = o.generation)
             FOR NO KEY UPDATE SKIP LOCKED) AS unknown
   WHERE l.generation = unknown.generation
  RETURNING l.generation`);

/** Bigint columns arrive as strings (a sequence stays far below 2^53), times as text: apps parse them their own way. */
type ClaimedRow = Omit<ClaimedLease, 'generation' | 'lastRenewedAt' | 'scope'> & {
  generation: string;
  lastRenewedAt: string;
} & ({ tenant: string; owner: string; taskId: string } | { tenant: null; owner: null; taskId: null });

const claimedLease = ({ generation, lastRenewedAt, tenant, owner, taskId, ...row }: ClaimedRow): ClaimedLease => ({
  ...row,
  generation: Number(generation),
  lastRenewedAt: new Date(lastRenewedAt),
  scope: taskId === null ? undefined : { tenant, owner, taskId },
});

/** A row with its generation as a number. */
const numbered = <Row extends { generation: number }>({ generation, ...row }: Row): Row =>
  ({ ...row, generation: Number(generation) }) as Row;

/** The scope in the parameters of a claim. */
const CLAIMED_TASK = { tenant: '$tenant', owner: '$owner', taskId: '$taskId' };

/**
 * I1, I3: rows of holders and leases alone, SKIP LOCKED, committed before any task is touched. Each lock re-checks the time
 * in the newest version of its row.
 *
 * `gone` are the expired holders of what may be claimed, locked FOR SHARE until the claim is committed: several claims share
 * them, and a renewal waits for the claim, or came first and then is skipped or found by the re-check (O31). `abandoned` are
 * the leases that have run out by their own time and whose holder does not keep them: there is none, it is gone, the lease
 * does not follow it, or it has no row. A row that is made meanwhile renews the lease itself (`registerStatement`), which
 * the lock on the lease finds out.
 *
 * The new generation fences the last holder out; everything else on the row survives. No attempt is counted: that takes a
 * run that begins.
 */
export const claimStatement = ({
  tasks,
  leases,
  replicas,
  effects,
}: LeaseTables): Statement<ClaimParams, ClaimedLease> => {
  const ranOut = (l: string): string => `${l}.agent = $agent AND ${l}.expires_at <= clock_timestamp()
       AND ($taskId::text IS NULL
            OR ${l}.task_no = (SELECT k.task_no FROM ${tasks} AS k WHERE ${isTask('k', CLAIMED_TASK)}))`;
  return new Statement(
    `
  WITH gone AS MATERIALIZED (
    SELECT h.holder, h.expires_at, h.renewed_at
      FROM ${replicas} AS h
     WHERE h.expires_at <= clock_timestamp()
       AND EXISTS (SELECT FROM ${leases} AS o WHERE o.holder = h.holder AND ${ranOut('o')})
       FOR SHARE SKIP LOCKED
  ), abandoned AS MATERIALIZED (
    SELECT f.generation, f.task_no, f.holder, greatest(f.renewed_at, g.renewed_at) AS renewed_at
      FROM ${leases} AS f LEFT JOIN gone AS g ON g.holder = f.holder AND f.follows_holder
     WHERE ${ranOut('f')}
       AND (f.holder IS NULL OR NOT f.follows_holder OR g.holder IS NOT NULL
            OR NOT EXISTS (SELECT FROM ${replicas} AS h WHERE h.holder = f.holder OFFSET 0))
       AND ($endingAfterAttempts::integer IS NULL OR f.cancel_requested_at IS NOT NULL OR f.kind = 'cancel' OR f.attempt >= $endingAfterAttempts
            OR EXISTS (SELECT FROM ${tasks} AS k
                        WHERE k.task_no = f.task_no
                          AND (k.state IN ${TERMINAL_LIST}
                               OR k.state IN ${INTERRUPTED_LIST}
                                  AND k.state_version > f.admitted_version))
            OR EXISTS (SELECT FROM ${effects} AS x
                        WHERE x.task_no = f.task_no AND x.turn_id = f.turn_id
                          AND x.state = 'dispatched' AND x.replay = 'never'))
     ORDER BY greatest(f.expires_at, g.expires_at)
     LIMIT $limit
       FOR UPDATE OF f SKIP LOCKED
  )
  UPDATE ${leases} AS l
     SET generation = DEFAULT, holder = $holder, follows_holder = true, begun = false, claims = l.claims + 1,
         expires_at = ${after('$ttlMs')}, acquired_at = clock_timestamp(), renewed_at = clock_timestamp()
    FROM abandoned AS a LEFT JOIN ${tasks} AS t ON t.task_no = a.task_no
   WHERE l.generation = a.generation
  RETURNING l.generation, t.tenant, t.owner, t.task_id AS "taskId", l.kind, l.turn_id AS "turnId",
            l.admitted_version AS "admittedVersion", l.attempt + 1 AS attempt,
            l.cancel_requested_at IS NOT NULL AS "cancelRequested",
            a.holder AS "lastHolder", CASE WHEN $withRequest::boolean THEN l.request END AS request,
            CASE WHEN $withRequest::boolean THEN l.context ELSE '' END AS context,
            to_char(a.renewed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "lastRenewedAt"`,
    claimedLease,
  );
};

/**
 * I3: the run of a claimed turn begins: its attempt is counted, once, however often this is sent. By generation: a lease
 * that was claimed by somebody else, or is gone, is not begun.
 */
export const beginStatement = ({ leases }: LeaseTables): Statement<{ generation: number }> =>
  new Statement(`
  UPDATE ${leases}
     SET attempt = attempt + (NOT begun)::integer, begun = true
   WHERE generation = $generation
  RETURNING generation`);

/**
 * I2: the task lock first, so that nobody decides about the task between its last event and the end of its lease (the
 * count only makes the lock happen: a lease whose task was deleted goes as well).
 */
export const releaseStatement = ({ tasks, leases }: LeaseTables): Statement<{ generation: number }> =>
  new Statement(`
  WITH t AS MATERIALIZED (
    SELECT task_no FROM ${tasks}
     WHERE task_no = (SELECT l.task_no FROM ${leases} AS l WHERE l.generation = $generation)
       FOR UPDATE
  )
  DELETE FROM ${leases}
   WHERE generation = $generation AND (SELECT count(*) FROM t) >= 0
  RETURNING generation`);

/** The run under way is not counted: it goes on elsewhere, or did not take place. */
const UNCOUNTED = 'attempt = attempt - begun::integer, begun = false';

/**
 * I3: a new generation fences the holder out as a claim does, whatever it may still have under way. The next run has the
 * number of the one that is handed over.
 */
export const handOverStatement = ({ leases }: LeaseTables): Statement<{ generation: number; afterMs: number }> =>
  new Statement(`
  UPDATE ${leases}
     SET generation = DEFAULT, holder = NULL, ${UNCOUNTED}, expires_at = ${after('$afterMs')}
   WHERE generation = $generation
  RETURNING generation`);

/**
 * The claim undone, but for the generation, which only grows, and the time at which it can be claimed: its own, should the
 * last holder turn out to live.
 */
export const putBackStatement = ({
  leases,
}: LeaseTables): Statement<{ generation: number; afterMs: number; holder: string | null; renewedAt: string }> =>
  new Statement(`
  UPDATE ${leases}
     SET generation = DEFAULT, holder = $holder, follows_holder = false, ${UNCOUNTED}, renewed_at = $renewedAt::timestamptz,
         expires_at = ${after('$afterMs')}
   WHERE generation = $generation
  RETURNING generation`);

/**
 * A look without a lock: a hint, acted on through fenced statements only. A lease whose task is gone is none: a task and
 * its first lease are inserted by one statement, so there is no lease before its task.
 */
export const inspectStatement = ({
  leases,
  tasks,
}: LeaseTables): Statement<{ generations: readonly number[] }, InspectedLease> =>
  new Statement(
    `
  SELECT l.generation, l.cancel_requested_at IS NOT NULL AS "cancelRequested"
    FROM ${leases} AS l
   WHERE l.generation = ANY($generations::bigint[]) AND EXISTS (SELECT FROM ${tasks} AS t WHERE t.task_no = l.task_no)`,
    numbered<InspectedLease>,
  );

/** Rows of replicas that have been gone for long and left nothing. One that is idle, and is pruned, registers again. */
export const pruneReplicasStatement = ({
  leases,
  replicas,
}: LeaseTables): Statement<{ olderThanMs: number; limit: number }, { pruned: number }> =>
  new Statement(`
  WITH old AS MATERIALIZED (
    SELECT h.holder
      FROM ${replicas} AS h
     WHERE h.expires_at < clock_timestamp() - $olderThanMs::double precision * interval '1 millisecond'
       AND NOT EXISTS (SELECT FROM ${leases} AS l WHERE l.holder = h.holder)
     LIMIT $limit
       FOR UPDATE OF h SKIP LOCKED
  ), gone AS (
    DELETE FROM ${replicas} AS h USING old WHERE h.holder = old.holder
  )
  SELECT count(*)::integer AS pruned FROM old`);

/** The statements of one set of tables. */
export const leaseStatements = (tables: LeaseTables) => ({
  renew: renewStatement(tables),
  register: registerStatement(tables),
  look: lookStatement(tables),
  disown: disownStatement(tables),
  claim: claimStatement(tables),
  begin: beginStatement(tables),
  release: releaseStatement(tables),
  handOver: handOverStatement(tables),
  putBack: putBackStatement(tables),
  inspect: inspectStatement(tables),
  pruneReplicas: pruneReplicasStatement(tables),
});

/** The columns of a new lease; the caller's statement gives the rows. Its first run begins with it: true, 1, true. */
export const leaseColumns = `task_no, agent, kind, turn_id, admitted_version, holder, follows_holder, attempt, begun,
                             expires_at, request, context, cancel_requested_at`;

/** Expiry of a new lease: `$n` ms from now. */
export const leaseExpiry = after;
