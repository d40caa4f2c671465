import { lookStatement, renewStatement } from '../../libs/a2a-cluster/src/postgres/leases/lease-statements.js';
import { eventually } from '../../tools/harness/wait.js';
import { type Replica, useCluster } from './cluster.fixture.js';
import { artifact } from './events.fixture.js';
import { type DatabaseFactory, type Guardless, type Rewrite, withoutGuard, withoutGuards } from './faults.fixture.js';
import { expireLeases, holdLock, leaseRow, logOf, untilBlocked } from './rows.fixture.js';

const TTL_MS = 60_000;
const GATE = 'SELECT pg_advisory_xact_lock(32)';

/** A claim that stops where a test holds the gate: before it looks at anything. Its snapshot is taken by then. */
const BEFORE_ITS_LOOK: Rewrite[] = [
  ['WITH gone AS', `WITH gate AS MATERIALIZED (${GATE}), gone AS`],
  ['WHERE h.expires_at <=', 'WHERE (SELECT count(*) FROM gate) = 1 AND h.expires_at <='],
  [/ WHERE (f\.agent = \$\d+)/, ' WHERE (SELECT count(*) FROM gate) = 1 AND $1'],
];

/** One that stops once it has locked the expired holders, and before it comes to their leases. */
const AFTER_ITS_LOOK: Rewrite[] = [
  ['), abandoned AS', '), gate AS MATERIALIZED (SELECT pg_advisory_xact_lock(32) FROM gone), abandoned AS'],
  [/ WHERE (f\.agent = \$\d+)/, ' WHERE (SELECT count(*) FROM gate) > 0 AND $1'],
];

/** One that stops once it has locked the leases, and before it writes. */
const BEFORE_ITS_WRITE: Rewrite[] = [
  [
    /\)\s+UPDATE "a2a_task_leases" AS l/,
    '), gate AS MATERIALIZED (SELECT pg_advisory_xact_lock(32) FROM abandoned)\n UPDATE "a2a_task_leases" AS l',
  ],
  ['WHERE l.generation = a.generation', 'WHERE (SELECT count(*) FROM gate) > 0 AND l.generation = a.generation'],
];

describe('A replica that renews one row', () => {
  const cluster = useCluster();

  /** A turn whose holder's row and own time have run out; the row is there, unless `without`. */
  async function expired(database: DatabaseFactory | undefined, without = false) {
    const a = await cluster.replica(database && { database });
    if (!without) await a.leases.renew(a.holderId, [], TTL_MS);
    const running = await a.working();
    await expireLeases(cluster.db, running.taskNo);
    return { a, ...running };
  }

  /** B's claim stands at its gate while A renews. What both believe afterwards. */
  async function renewalBesideAClaim(
    { a, taskNo, generation }: Awaited<ReturnType<typeof expired>>,
    gated: Guardless,
    renewalWaits: boolean,
  ) {
    const b = await cluster.replica({ database: gated.database });
    const gate = await holdLock(cluster.db, GATE);
    const claiming = b.leases.claim({ holder: b.holderId, ttlMs: TTL_MS, limit: 10 });
    await untilBlocked(cluster.db);
    const renewing = a.heartbeat.runOnce();
    if (renewalWaits) await untilBlocked(cluster.db, 2);
    else expect(await renewing).toBe(true);
    await gate.release();
    const claimed = await claiming;
    expect(await renewing).toBe(true);
    gated.expectGone();
    const lease = (await leaseRow(cluster.db, taskNo))!;
    return {
      claims: claimed.length,
      holds: a.heartbeat.generations.includes(generation),
      held: lease.holder === a.holderId && lease.generation === generation && !lease.expired,
    };
  }

  const RENEWED = { claims: 0, holds: true, held: true };
  const CLAIMED = { claims: 1, holds: false, held: false };
  const BOTH_BELIEVE = { claims: 1, holds: true, held: false };

  it('O31 a renewal that comes between the look and the lock of a claim wins', async () => {
    const turn = await expired(undefined);
    expect(await renewalBesideAClaim(turn, withoutGuard(...BEFORE_ITS_LOOK), false)).toEqual(RENEWED);
  });

  it('O31 a renewal that comes between the lock and the write of a claim waits for it, and learns that it was claimed', async () => {
    const turn = await expired(undefined);
    expect(await renewalBesideAClaim(turn, withoutGuard(...AFTER_ITS_LOOK), true)).toEqual(CLAIMED);
    expect(turn.turn.signal.aborted).toBe(true);
  });

  it('O31 negative control: without the lock on the holder’s row both believe that they hold the lease', async () => {
    for (const gate of [BEFORE_ITS_LOOK, AFTER_ITS_LOOK]) {
      const turn = await expired(undefined);
      const gated = withoutGuard(...gate, ['FOR SHARE SKIP LOCKED', '']);
      expect(await renewalBesideAClaim(turn, gated, false)).toEqual(BOTH_BELIEVE);
    }
  });

  it('O31 the same where the replica has no row: its renewal makes one, and the lease’s own lock decides', async () => {
    const before = await expired(undefined, true);
    expect(await renewalBesideAClaim(before, withoutGuard(...BEFORE_ITS_LOOK), false)).toEqual(RENEWED);
    const after = await expired(undefined, true);
    expect(await renewalBesideAClaim(after, withoutGuard(...BEFORE_ITS_WRITE), true)).toEqual(CLAIMED);
  });

  it('O31 negative control: a row that is made without the leases, and both believe that they hold it', async () => {
    const guard = withoutGuard(['AND (SELECT count(*) FROM r) = 1', 'AND (SELECT count(*) FROM r) = 0']);
    for (const gate of [BEFORE_ITS_LOOK, BEFORE_ITS_WRITE]) {
      const turn = await expired(guard.database, true);
      expect(await renewalBesideAClaim(turn, withoutGuard(...gate), false)).toEqual(BOTH_BELIEVE);
    }
    guard.expectGone();
  });

  it('I3 a holder whose row has run out, and comes back first, keeps what nobody has claimed', async () => {
    const { a, taskNo, generation, turn } = await expired(undefined);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ expired: true });
    expect(await a.heartbeat.runOnce()).toBe(true);
    expect(await (await cluster.replica()).sweeper.runOnce()).toMatchObject({ claimed: 0 });
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation, expired: false });
    expect(turn.signal.aborted).toBe(false);
  });

  it('I6 a lease lives by its own time where its holder’s row has run out, and by the row where it has itself', async () => {
    const a = await cluster.replica();
    await a.leases.renew(a.holderId, [], TTL_MS);
    const { taskNo } = await a.working();
    const sweep = async () => (await cluster.replica()).sweeper.runOnce();
    const past = "SET expires_at = clock_timestamp() - interval '1 second'";
    await cluster.db.query(`UPDATE a2a_replicas ${past}`); // idle before the turn
    expect(await sweep()).toMatchObject({ claimed: 0 });
    await a.heartbeat.runOnce();
    await cluster.db.query(`UPDATE a2a_task_leases ${past}`); // a turn that takes long
    expect(await sweep()).toMatchObject({ claimed: 0 });
    await cluster.db.query(`UPDATE a2a_replicas ${past}`);
    expect(await sweep()).toMatchObject({ claimed: 1, failed: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
  });

  it('I3 a turn that has outlived its lease’s own time is busy, and its effects and transactions are permitted', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, turn, taskNo } = await a.working();
    await a.heartbeat.runOnce();
    await cluster.db.query("UPDATE a2a_task_leases SET expires_at = clock_timestamp() - interval '1 second'");
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ expired: false });
    expect(await b.admit(scope)).toMatchObject({ outcome: 'busy' });
    expect(await b.tasks.requestCancel(scope, b.leaseRequest('cancel'))).toMatchObject({ outcome: 'requested' });
    await cluster.db.query('UPDATE a2a_task_leases SET cancel_requested_at = NULL');
    expect(await turn.effect('charge', { replay: 'never' }, () => 'done')).toBe('done');
    expect(await turn.transaction(() => Promise.resolve('done'))).toBe('done');
    await expireLeases(cluster.db, taskNo);
    expect(await b.admit(scope)).toMatchObject({ outcome: 'abandoned' });
  });

  it('I3 a lease that does not follow its holder is not renewed by it: it is lost, and the turn is told', async () => {
    const a = await cluster.replica();
    const { turn } = await a.working();
    await cluster.db.query('UPDATE a2a_task_leases SET follows_holder = false');
    await a.heartbeat.runOnce();
    expect(turn.signal.aborted).toBe(true);
  });

  it('I6 a claim whose answer was lost runs out at its time though its holder goes on with others', async () => {
    const [dead, a] = [await cluster.replica(), await cluster.replica()];
    const lost = await dead.working();
    await expireLeases(cluster.db);
    await a.working();
    await a.leases.claim({ holder: a.holderId, ttlMs: TTL_MS, limit: 1 }); // and nobody here knows of it
    const expireOwn = 'UPDATE a2a_task_leases SET expires_at = clock_timestamp() WHERE task_no = $1';
    await cluster.db.query(expireOwn, [lost.taskNo]);
    await a.heartbeat.runOnce();
    await eventually(async () => (await leaseRow(cluster.db, lost.taskNo))!.expired, { timeoutMs: 10_000 });
    expect(await (await cluster.replica()).sweeper.runOnce()).toMatchObject({ claimed: 1, failed: 1 });
  });

  it('I3 a lease that is on its way to its holder is not taken for one that nobody knows', async () => {
    const a = await cluster.replica();
    const known = await a.working();
    const coming = await a.working();
    await expireLeases(cluster.db, known.taskNo);
    await a.leases.renew(a.holderId, [known.generation], TTL_MS);
    await looked(a);
    expect(await leaseRow(cluster.db, coming.taskNo)).toMatchObject({ followsHolder: true });
  });

  it('I3 nor is one that has arrived while a slow renewal was under way', async () => {
    const ttlMs = 2_000;
    const a = await cluster.replica();
    await a.leases.renew(a.holderId, [], ttlMs);
    const [known, coming] = [await a.working(), await a.working()];
    const row = await holdLock(cluster.db, 'UPDATE a2a_replicas SET lapses = lapses');
    const left =
      "UPDATE a2a_task_leases SET expires_at = clock_timestamp() + $2 * interval '1 millisecond' WHERE task_no = $1";
    // 0.85 of its TTL have passed: what acquired it may still be answered.
    await cluster.db.query(left, [coming.taskNo, ttlMs * 0.15]);
    const askedAt = performance.now();
    const renewed = a.leases.renew(a.holderId, [known.generation], ttlMs);
    await untilBlocked(cluster.db);
    await eventually(() => performance.now() - askedAt > ttlMs * 0.1, { intervalMs: 5 });
    await row.release();
    await renewed;
    await looked(a);
    expect(await leaseRow(cluster.db, coming.taskNo)).toMatchObject({ followsHolder: true });
  });

  /** What a renewal sends beside it, for leases that their holder does not know of, has come to an end. */
  async function looked(a: Replica): Promise<void> {
    await a.database.query('SELECT 1');
    await eventually(async () => {
      const [row] = await cluster.db.query<{ busy: number }>(
        `SELECT count(*)::integer AS busy FROM pg_stat_activity
          WHERE datname = current_database() AND state = 'active' AND query LIKE '%SET follows_holder%' AND pid <> pg_backend_pid()`,
      );
      return row!.busy === 0;
    });
  }

  it('FAILED says when the replica was heard last, be it by its row or by the lease', async () => {
    const { a, scope, taskNo } = await expired(undefined);
    await cluster.db.query("UPDATE a2a_replicas SET renewed_at = '2026-01-02T03:04:05Z'");
    await cluster.db.query("UPDATE a2a_task_leases SET renewed_at = '2026-01-01T00:00:00Z'");
    await (await cluster.replica()).sweeper.runOnce();
    const [text] = (await a.tasks.find(scope))!.task.status!.message!.parts;
    expect(JSON.stringify(text)).toContain('sent its last heartbeat at 2026-01-02T03:04:05.000Z');
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  /** A turn among others of one replica whose lease row somebody has locked for himself. */
  async function lockedLease() {
    const a = await cluster.replica();
    await a.leases.renew(a.holderId, [], TTL_MS);
    const [locked, other] = [await a.working(), await a.working()];
    const lock = await holdLock(cluster.db, 'SELECT FROM a2a_task_leases WHERE task_no = $1 FOR UPDATE', [
      locked.taskNo,
    ]);
    return { a, locked, other, lock };
  }

  it('B10 a lease row that somebody has locked holds up no renewal: all turns are held, that one too', async () => {
    const { a, locked, other, lock } = await lockedLease();
    await expireLeases(cluster.db, other.taskNo);
    const before = locked.turn.deadline;
    expect(await a.heartbeat.runOnce()).toBe(true);
    expect(locked.turn.deadline).toBeGreaterThan(before);
    expect(a.heartbeat.generations).toEqual([locked.generation, other.generation]);
    expect(await leaseRow(cluster.db, other.taskNo)).toMatchObject({ expired: false });
    await lock.release();
    await cluster.db.query("UPDATE a2a_task_leases SET expires_at = clock_timestamp() - interval '1 second'");
    expect(await (await cluster.replica()).sweeper.runOnce()).toMatchObject({ claimed: 0 });
    locked.loop.add(artifact(locked.scope, 'a1'));
    await locked.turn.flush();
  });

  it('B10 a table of leases that somebody has locked holds up the look only: what was live is held', async () => {
    const a = await cluster.replica({ times: { heartbeatIntervalMs: 1_500, ttlMs: 6_000 } });
    const { turn, generation } = await a.working();
    await a.heartbeat.runOnce();
    const lock = await holdLock(cluster.db, 'LOCK TABLE a2a_task_leases IN ACCESS EXCLUSIVE MODE');
    const before = turn.deadline;
    expect(await a.heartbeat.runOnce()).toBe(true);
    expect(turn.deadline).toBeGreaterThan(before);
    expect(a.heartbeat.generations).toEqual([generation]);
    await lock.release();
    expect(await a.heartbeat.runOnce()).toBe(true);
    expect(turn.signal.aborted).toBe(false);
  });

  it('B10 but where the row had run out meanwhile the look is needed', async () => {
    const a = await cluster.replica({ times: { heartbeatIntervalMs: 1_500, ttlMs: 6_000 } });
    const { turn } = await a.working();
    await a.heartbeat.runOnce();
    await expireLeases(cluster.db);
    const lock = await holdLock(cluster.db, 'LOCK TABLE a2a_task_leases IN ACCESS EXCLUSIVE MODE');
    const before = turn.deadline;
    expect(await a.heartbeat.runOnce()).toBe(false);
    expect(turn.deadline).toBe(before);
    await lock.release();
  });

  it('B10 a holder’s row that somebody has locked holds up its renewals, until it is let go', async () => {
    const { a, locked, lock } = await lockedLease();
    const row = await holdLock(cluster.db, 'SELECT FROM a2a_replicas WHERE holder = $1 FOR UPDATE', [a.holderId]);
    const before = locked.turn.deadline;
    const renewing = a.heartbeat.runOnce();
    await untilBlocked(cluster.db);
    await row.release();
    expect(await renewing).toBe(true);
    expect(locked.turn.deadline).toBeGreaterThan(before);
    await lock.release();
  });

  const LEASES = 100;
  const RENEWALS = 200;

  /** Pages that a renewal of many leases touches, after many of them beside a snapshot that was there before. */
  async function pagesUnderAnOldSnapshot(guard?: Guardless) {
    const a = await cluster.replica(guard && { database: guard.database });
    await a.leases.renew(a.holderId, [], TTL_MS);
    const running = [];
    for (let at = 0; at < LEASES; at += 1) running.push(await a.working());
    const snapshot = await cluster.db.connect();
    const sizeOf = async (): Promise<number> => {
      const [row] = await cluster.db.query<{ pages: number }>(
        "SELECT (pg_relation_size('a2a_task_leases') / 8192)::integer AS pages",
      );
      return row!.pages;
    };
    try {
      await snapshot.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await snapshot.query('SELECT count(*) FROM a2a_tasks');
      const before = await sizeOf();
      let touched = 0;
      for (let renewals = 0; renewals < RENEWALS; renewals += 1) await a.heartbeat.runOnce();
      const generations = running.map(({ generation }) => generation);
      for (const [sql, params] of sent(a, generations, guard)) {
        const [row] = await cluster.db.query<{ 'QUERY PLAN': { Plan: Record<string, number> }[] }>(
          `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`,
          params,
        );
        const { Plan: plan } = row!['QUERY PLAN'][0]!;
        touched += plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!;
      }
      expect(a.heartbeat.generations).toHaveLength(LEASES);
      return { touched, grown: (await sizeOf()) - before };
    } finally {
      await snapshot.query('ROLLBACK');
      await snapshot.end();
    }
  }

  /** The statements of a renewal, as such a replica sends them. */
  function sent({ tables, holderId }: Replica, generations: number[], guard?: Guardless): [string, unknown[]][] {
    const [renewal, look] = [renewStatement(tables), lookStatement(tables)];
    const renewed = guard ? renewal.text.replace(...PER_LEASE) : renewal.text;
    return [
      [renewed, renewal.values({ holder: holderId, ttlMs: TTL_MS })],
      [look.text, look.values({ holder: holderId, generations })],
    ];
  }

  it('B11 many renewals beside an old snapshot touch a few pages more, however many leases there are', async () => {
    const { touched, grown } = await pagesUnderAnOldSnapshot();
    // 100 leases by their key, and the versions of one row.
    expect(touched).toBeLessThan(5 * LEASES);
    expect(grown).toBe(0);
  });

  it('B11 negative control: renewals of the lease rows touch them all in all their versions', async () => {
    const { touched, grown } = await pagesUnderAnOldSnapshot(withoutGuards([PER_LEASE]));
    expect(touched).toBeGreaterThan(5 * LEASES);
    expect(grown).toBeGreaterThan(LEASES);
  });

  it('rows of replicas that are gone for long are pruned, once they have left nothing', async () => {
    const [gone, left, alive] = [await cluster.replica(), await cluster.replica(), await cluster.replica()];
    for (const { leases, holderId } of [gone, left, alive]) await leases.renew(holderId, [], TTL_MS);
    await left.working();
    await cluster.db.query(
      "UPDATE a2a_replicas SET expires_at = clock_timestamp() - interval '2 days' WHERE holder <> $1",
      [alive.holderId],
    );
    expect(await alive.leases.prune(24 * 3_600_000, 100)).toBe(1);
    const rows = await cluster.db.query<{ holder: string }>('SELECT holder FROM a2a_replicas');
    expect(rows.map(({ holder }) => holder).sort()).toEqual([left.holderId, alive.holderId].sort());
    await gone.working(); // it was idle
    expect(await gone.heartbeat.runOnce()).toBe(true);
    expect(await cluster.db.query('SELECT holder FROM a2a_replicas')).toHaveLength(3);
  });
});

/** As if a renewal wrote each lease, as it once did. */
const PER_LEASE: [RegExp, string] = [
  /^\s*UPDATE "a2a_replicas" AS r\s[\s\S]*RETURNING/,
  `UPDATE a2a_task_leases AS l SET expires_at = clock_timestamp() + $1::double precision * interval '1 millisecond'
     FROM a2a_replicas AS r WHERE r.holder = $2 AND l.holder = $2 RETURNING`,
];
