import { eventually } from '../../tools/harness/wait.js';
import { isLost, useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, INPUT_REQUIRED, message, status } from './events.fixture.js';
import { type DatabaseFactory, withoutGuard, withoutGuards } from './faults.fixture.js';
import { expireLeases, HOLD_HERE, holdEvents, leaseRow, logOf, untilBlocked } from './rows.fixture.js';

/** As if a renewal wrote each lease. */
const RENEWAL_OF_LEASES = [
  /^\s*UPDATE "a2a_replicas" AS r\s[\s\S]*RETURNING/,
  `UPDATE a2a_task_leases AS l SET expires_at = clock_timestamp() + $1::double precision * interval '1 millisecond'
     FROM a2a_replicas AS r WHERE r.holder = $2 AND l.holder = $2 RETURNING`,
] as const;

describe('Heartbeats beside everything else', () => {
  const cluster = useCluster();

  /** A renewal round while a commit has its locks and is not through yet. */
  async function renewalDuringACommit(ending: boolean, database?: DatabaseFactory) {
    const a = await cluster.replica(database && { database });
    const { scope, loop, turn, taskNo } = await a.working();
    await a.leases.renew(a.holderId, [], 60_000); // as at boot
    await expireLeases(cluster.db, taskNo);
    const hold = await holdEvents(cluster.db);
    loop.add(artifact(scope, 'a1', HOLD_HERE));
    if (ending) loop.add(status(scope, COMPLETED));
    await untilBlocked(cluster.db);
    const renewing = a.heartbeat.runOnce();
    return { a, turn, taskNo, hold, renewing };
  }

  it('O21 a heartbeat passes a commit in flight, and both go through', async () => {
    const { turn, taskNo, hold, renewing } = await renewalDuringACommit(false);
    expect(await renewing).toBe(true);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ expired: false });
    await hold.release();
    await turn.flush();
    expect(turn.signal.aborted).toBe(false);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1']);
  });

  it('O21 negative control: a renewal of lease rows would wait for a commit that has locked one for itself', async () => {
    const guard = withoutGuards(
      [['(SELECT task_no FROM t) FOR KEY SHARE', '(SELECT task_no FROM t) FOR SHARE']],
      [RENEWAL_OF_LEASES],
    );
    const { taskNo, hold, renewing } = await renewalDuringACommit(false, guard.database);
    guard.expectGone();
    await untilBlocked(cluster.db, 2);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ expired: true });
    await hold.release();
    expect(await renewing).toBe(true);
  });

  it('O21 a heartbeat during the terminal commit: COMPLETED, no conflict of its own making', async () => {
    const { a, turn, taskNo, hold, renewing } = await renewalDuringACommit(true);
    // The commit deletes the lease, which a renewal does not wait for.
    expect(await renewing).toBe(true);
    await hold.release();
    await turn.flush();
    expect(turn.signal.aborted).toBe(false);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1', 'status COMPLETED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    expect(a.heartbeat.generations).toEqual([]);
  });

  it('O21 heartbeats and commits that interleave freely lose nothing', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    const chunks = Array.from({ length: 40 }, (_, chunk) => `a${chunk}`);
    for (const chunk of chunks) {
      loop.add(artifact(scope, chunk));
      expect(await Promise.all([a.heartbeat.runOnce(), turn.flush()])).toEqual([true, undefined]);
    }
    loop.add(status(scope, COMPLETED));
    await Promise.all([a.heartbeat.runOnce(), turn.flush()]);
    const artifacts = chunks.map((chunk) => `artifact ${chunk}`);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', ...artifacts, 'status COMPLETED']);
    expect(turn.signal.aborted).toBe(false);
  });

  /** The turn has asked its question and released; a renewal that was on its way lands after that. */
  async function renewalAfterTheRelease(database?: DatabaseFactory) {
    const [a, b] = [await cluster.replica(database && { database }), await cluster.replica()];
    const { taskNo, generation, scope } = await a.waiting();
    const renewed = await a.leases.renew(a.holderId, [generation], 60_000);
    return { b, taskNo, scope, renewed };
  }

  it('O26 a heartbeat that lands after the release brings no row back, and a waiting task is never failed', async () => {
    const { b, taskNo, scope, renewed } = await renewalAfterTheRelease();
    expect(renewed).toEqual([]);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    await expireLeases(cluster.db);
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 0 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status INPUT_REQUIRED']);
    expect((await b.followUp(scope, message('answer'))).fencingToken).toBeDefined();
  });

  it('O26 negative control: a renewal that is an upsert brings the lease of a waiting task back', async () => {
    const guard = withoutGuard([
      /UPDATE "a2a_task_leases" AS l SET expires_at[\s\S]*FROM r\) = 1/,
      `INSERT INTO a2a_task_leases (generation, task_no, agent, kind, turn_id, admitted_version, holder, attempt,
                                    expires_at, context) OVERRIDING SYSTEM VALUE
       SELECT g, (SELECT max(task_no) FROM a2a_tasks), 'default', 'message', gen_random_uuid(), 1, $1, 1,
              clock_timestamp() + $2::double precision * interval '1 millisecond', '{}'
         FROM unnest($3::bigint[]) AS g
       ON CONFLICT (generation) DO UPDATE SET expires_at = excluded.expires_at`,
    ]);
    const { taskNo } = await renewalAfterTheRelease(guard.database);
    guard.expectGone();
    expect(await leaseRow(cluster.db, taskNo)).toBeDefined();
  });

  /** A turn was given up here (its lease was dropped from the heartbeat); its replica goes on with another. */
  async function abandonedBesideALiveOne(database?: DatabaseFactory) {
    const [a, b] = [await cluster.replica(database && { database }), await cluster.replica()];
    const [given, kept] = [await a.working(), await a.working()];
    await a.leases.renew(a.holderId, [], 60_000); // as at boot
    given.turn.lease?.drop();
    await expireLeases(cluster.db);
    expect(await a.heartbeat.runOnce()).toBe(true);
    // The renewal of the others does not wait for what is given up.
    const isLetGo = async (): Promise<boolean> => !(await leaseRow(cluster.db, given.taskNo))!.followsHolder;
    if (!database) await eventually(isLetGo, { timeoutMs: 10_000 });
    return { given, kept, swept: await b.sweeper.runOnce() };
  }

  it('I6 a renewal names generations: what a replica has given up runs out, whatever else it renews', async () => {
    const { given, kept, swept } = await abandonedBesideALiveOne();
    expect(swept).toMatchObject({ claimed: 1, failed: 1 });
    expect(await logOf(cluster.db, given.taskNo)).toEqual(['task WORKING', 'status FAILED']);
    expect(await leaseRow(cluster.db, kept.taskNo)).toMatchObject({ generation: kept.generation, expired: false });
  });

  it('I6 negative control: leases that all follow their holder keep the abandoned turn WORKING for good', async () => {
    const guard = withoutGuard(['SET follows_holder = false,', 'SET follows_holder = true,']);
    const { given, swept } = await abandonedBesideALiveOne(guard.database);
    guard.expectGone();
    expect(swept).toMatchObject({ claimed: 0 });
    expect(await logOf(cluster.db, given.taskNo)).toEqual(['task WORKING']);
  });

  it('I3 a holder whose lease was claimed learns it at its next heartbeat, and renews nothing of it', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const [lost, kept] = [await a.working(), await a.working()];
    await expireLeases(cluster.db, lost.taskNo);
    const [claimed] = await b.leases.claim({ holder: b.holderId, ttlMs: 60_000, limit: 10 });
    await a.heartbeat.runOnce();
    expect(isLost(lost.turn.signal.reason)).toBe(true);
    expect(lost.loop.add(artifact(lost.scope, 'late'))).toBe(false);
    expect(kept.turn.signal.aborted).toBe(false);
    expect(a.heartbeat.generations).toEqual([kept.generation]);
    expect(await leaseRow(cluster.db, lost.taskNo)).toMatchObject({
      generation: claimed!.generation,
      holder: b.holderId,
    });
  });

  it('O40 the flag of a cancel comes with the renewal, and with a look in between', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, generation } = await a.working();
    const other = await a.working();
    expect(await b.tasks.requestCancel(scope, b.leaseRequest('cancel'))).toMatchObject({ outcome: 'requested' });
    const generations = [generation, other.generation];
    const renewed = await a.leases.renew(a.holderId, generations, 60_000);
    expect(renewed).toEqual(
      expect.arrayContaining([
        { generation, cancelRequested: true },
        { generation: other.generation, cancelRequested: false },
      ]),
    );
    expect(await a.leases.inspect([...generations, 0])).toEqual({ cancelRequested: [generation], lost: [0] });
    other.loop.add(status(other.scope, INPUT_REQUIRED));
    await other.turn.flush();
    expect(await a.leases.inspect(generations)).toEqual({ cancelRequested: [generation], lost: [other.generation] });
  });
});
