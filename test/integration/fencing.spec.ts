import { isLost, useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, message, status } from './events.fixture.js';
import { type DatabaseFactory, withoutGuard, withoutGuards } from './faults.fixture.js';
import {
  expireLeases,
  HOLD_HERE,
  holdEvents,
  holdLock,
  leaseRow,
  logOf,
  taskRow,
  untilBlocked,
} from './rows.fixture.js';

const claimFor = (holder: string) => ({ holder, ttlMs: 60_000, limit: 10 });

describe('A lease that was lost permits nothing', () => {
  const cluster = useCluster();

  /** A is frozen, B has claimed but not yet written, and A's last commit comes after all. */
  async function lateCommitBetweenClaimAndFailed(database?: DatabaseFactory) {
    const [a, b] = [await cluster.replica(database && { database }), await cluster.replica()];
    const running = await a.working();
    const { scope, loop, turn, taskNo } = running;
    await expireLeases(cluster.db, taskNo);
    const [claimed] = await b.leases.claim(claimFor(b.holderId));
    loop.add(artifact(scope, 'late'));
    loop.add(status(scope, COMPLETED));
    const flushed = await turn.flush().catch((error: unknown) => error);
    return { a, b, ...running, claimed: claimed!, flushed };
  }

  it('O56 a late commit between claim and FAILED is refused: version unchanged, no event, lease untouched', async () => {
    const { b, taskNo, claimed, flushed } = await lateCommitBetweenClaimAndFailed();
    expect(isLost(flushed)).toBe(true);
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'WORKING', version: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation: claimed.generation, holder: b.holderId });
    expect(await b.recovery.recover(b.claimOf(claimed))).toBe('failed');
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
  });

  it('O56 negative control: without the generation in its WHERE, the late commit ends the task', async () => {
    const guard = withoutGuards(
      [[/WHERE generation = (\$\d+) AND task_no = \(SELECT/, 'WHERE $1::bigint > 0 AND task_no = (SELECT']],
      [[/OR generation = (\$\d+)\)/, 'OR $1::bigint > 0)']],
    );
    const { taskNo, flushed } = await lateCommitBetweenClaimAndFailed(guard.database);
    guard.expectGone();
    expect(flushed).toBeUndefined();
    expect((await logOf(cluster.db, taskNo)).at(-1)).toBe('status COMPLETED');
  });

  it('I3 expiry alone refuses nothing: a holder whose lease nobody has claimed still writes', async () => {
    const { working } = await cluster.replica();
    const { scope, loop, turn, taskNo } = await working();
    await expireLeases(cluster.db, taskNo);
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status COMPLETED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  /** A's commit has looked at its lease and stands before its end; its lease runs out, and B sweeps. */
  async function claimDuringACommit(database?: DatabaseFactory) {
    const [a, b] = [await cluster.replica(database && { database }), await cluster.replica()];
    const { scope, loop, turn, taskNo, generation } = await a.working();
    await expireLeases(cluster.db, taskNo);
    const hold = await holdEvents(cluster.db);
    loop.add(artifact(scope, 'a1', HOLD_HERE));
    await untilBlocked(cluster.db);
    const claimed = await b.leases.claim(claimFor(b.holderId));
    await hold.release();
    const flushed = await turn.flush().catch((error: unknown) => error);
    return { taskNo, generation, claimed, flushed };
  }

  it('I3 a commit in flight holds its lease against a claim', async () => {
    const { taskNo, generation, claimed, flushed } = await claimDuringACommit();
    expect(claimed).toEqual([]);
    expect(flushed).toBeUndefined();
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation, expired: true });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1']);
  });

  it('I3 negative control: a look at the lease without a row lock is no fence', async () => {
    const guard = withoutGuard(['(SELECT task_no FROM t) FOR KEY SHARE', '(SELECT task_no FROM t)']);
    const { taskNo, claimed, flushed } = await claimDuringACommit(guard.database);
    guard.expectGone();
    // Claimed, and yet the old holder's event came in after that.
    expect(claimed).toHaveLength(1);
    expect(flushed).toBeUndefined();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1']);
  });

  /** B has acquired after A, and A releases late. */
  async function lateRelease(database?: DatabaseFactory) {
    const [a, b] = [await cluster.replica(database && { database }), await cluster.replica()];
    const { taskNo, generation } = await a.working();
    await expireLeases(cluster.db, taskNo);
    const [claimed] = await b.leases.claim(claimFor(b.holderId));
    const released = await a.leases.release(generation);
    return { b, taskNo, generation, claimed: claimed!, released };
  }

  it("O34 a late release of a claimed lease: the new holder's lease is untouched", async () => {
    const { b, taskNo, generation, claimed, released } = await lateRelease();
    expect(released).toBe(false);
    expect(claimed.generation).toBeGreaterThan(generation);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation: claimed.generation, holder: b.holderId });
  });

  it('O34 the same where the first turn has ended and a follow-up was admitted elsewhere', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo, generation } = await a.waiting();
    const next = await b.followUp(scope, message());
    expect(await a.leases.release(generation)).toBe(false);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation: next.fencingToken, holder: b.holderId });
    expect(next.fencingToken).toBeGreaterThan(generation);
  });

  it('O34 negative control: a release without the generation takes the lease from its new holder', async () => {
    const guard = withoutGuard([/WHERE generation = (\$\d+) AND \(SELECT/, 'WHERE $1::bigint > 0 AND (SELECT']);
    const { taskNo, released } = await lateRelease(guard.database);
    guard.expectGone();
    expect(released).toBe(true);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  const claimInPlace = `UPDATE a2a_task_leases SET generation = DEFAULT, holder = 'claimer',
                               expires_at = clock_timestamp() + interval '1 minute' WHERE task_no = $1`;
  const claimAnew = `WITH old AS (DELETE FROM a2a_task_leases WHERE task_no = $1 RETURNING *)
    INSERT INTO a2a_task_leases (task_no, agent, kind, turn_id, admitted_version, holder, attempt, expires_at, context)
    SELECT task_no, agent, kind, turn_id, admitted_version, 'claimer', attempt,
           clock_timestamp() + interval '1 minute', context FROM old`;

  /** A claim of an expired lease is under way while somebody decides about the task. */
  async function decisionDuringAClaim(decide: 'admit' | 'requestCancel', claim = claimInPlace, lost = 'AUTH') {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = lost === 'AUTH' ? await a.waiting() : await a.working();
    if (lost === 'AUTH') await a.followUp(scope, message('before'));
    await expireLeases(cluster.db, taskNo);
    const claiming = await holdLock(cluster.db, claim, [taskNo]);
    const lease = b.leaseRequest(decide === 'admit' ? 'message' : 'cancel');
    const deciding = decide === 'admit' ? b.admit(scope, message('after'), lease) : b.tasks.requestCancel(scope, lease);
    const decided = deciding.then(
      ({ outcome }) => outcome as string,
      (error: Error) => error.message,
    );
    await untilBlocked(cluster.db);
    await claiming.release();
    return { outcome: await decided, taskNo };
  }

  it('O55 a follow-up that waited for a claim sees the claimed lease: busy, never abandoned or free', async () => {
    const { outcome, taskNo } = await decisionDuringAClaim('admit');
    expect(outcome).toBe('busy');
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: 'claimer', expired: false });
    expect((await logOf(cluster.db, taskNo)).at(-1)).toBe('userMessage before');
  });

  it('O55 a cancel that waited for a claim marks the claimed lease', async () => {
    const { outcome, taskNo } = await decisionDuringAClaim('requestCancel', claimInPlace, 'WORKING');
    expect(outcome).toBe('requested');
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: 'claimer', cancelRequested: true });
  });

  it('O55 negative control: a claim that deletes and inserts shows a gap to whoever waited', async () => {
    const { outcome } = await decisionDuringAClaim('admit', claimAnew);
    expect(outcome).not.toBe('busy');
  });
});
