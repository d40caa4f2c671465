import type { SweepResult } from '../../libs/a2a-cluster/src/recovery/abandoned-task.sweeper.js';
import { callContextOf, newScope, type Replica, useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, inState, status } from './events.fixture.js';
import { interceptable, type Interception, Pause, READ_TASK, withoutGuard } from './faults.fixture.js';
import { expireLeases, HOLD_HERE, holdEvents, holdLock, leaseRow, logOf, untilBlocked } from './rows.fixture.js';

const CLAIM = 'FOR UPDATE SKIP LOCKED';

describe('Sweepers on several replicas', () => {
  const cluster = useCluster();

  const sweepAll = (replicas: Replica[]): Promise<SweepResult[]> =>
    Promise.all(replicas.map(({ sweeper }) => sweeper.runOnce()));

  const sum = (results: SweepResult[], what: keyof SweepResult): number =>
    results.reduce((total, result) => total + result[what], 0);

  /** Eight sweepers whose claims reach the database together: each waits until all of them are about to be sent. */
  function sweepersAtOnce(count: number, batchSize?: number): Promise<Replica[]> {
    let arrived = 0;
    let open!: () => void;
    const opened = new Promise<void>((resolve) => (open = resolve));
    const together: Interception = async (sql, run) => {
      if (sql.includes(CLAIM)) {
        arrived += 1;
        if (arrived >= count) open();
        await opened;
      }
      return run();
    };
    const sweeper = async (): Promise<Replica> => {
      const faults = interceptable();
      const replica = await cluster.replica({ database: faults.database, ...(batchSize && { batchSize }) });
      faults.get().intercept = together;
      return replica;
    };
    return Promise.all(Array.from({ length: count }, sweeper));
  }

  it('O28 eight sweepers, one expired lease: one claim, one FAILED event', async () => {
    const dead = await cluster.replica();
    const { taskNo } = await dead.working();
    await expireLeases(cluster.db, taskNo);
    const results = await sweepAll(await sweepersAtOnce(8));
    expect(results.filter(({ claimed }) => claimed > 0)).toMatchObject([{ claimed: 1, failed: 1, lost: 0, errors: 0 }]);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('O28 twenty leases, four sweepers in small batches: each is ended once', async () => {
    const dead = await cluster.replica();
    const running = await Promise.all(Array.from({ length: 20 }, () => dead.working()));
    await expireLeases(cluster.db);
    const results = await sweepAll(await sweepersAtOnce(4, 3));
    expect(sum(results, 'claimed')).toBe(20);
    expect(sum(results, 'failed')).toBe(20);
    for (const { taskNo } of running) {
      expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
    }
    expect(await cluster.db.query('SELECT generation FROM a2a_task_leases')).toEqual([]);
  });

  it('O28 a sweep joins the one that runs, and takes batches until one comes back short', async () => {
    const [dead, b] = [await cluster.replica(), await cluster.replica({ batchSize: 2 })];
    await Promise.all(Array.from({ length: 5 }, () => dead.working()));
    await expireLeases(cluster.db);
    const [first, second] = [b.sweeper.runOnce(), b.sweeper.runOnce()];
    expect(second).toBe(first);
    expect(await first).toMatchObject({ claimed: 5, failed: 5 });
    expect(b.heartbeat.generations).toEqual([]);
  });

  it('O28 an expired lease of another agent is left to the replicas that serve it', async () => {
    const [dead, same, other] = [
      await cluster.replica(),
      await cluster.replica(),
      await cluster.replica({ agent: 'other' }),
    ];
    const { taskNo } = await dead.working();
    await expireLeases(cluster.db, taskNo);
    expect(await other.sweeper.runOnce()).toMatchObject({ claimed: 0 });
    expect(await same.sweeper.runOnce()).toMatchObject({ claimed: 1, failed: 1 });
  });

  /**
   * The sweeper's claim has its snapshot, in which the lease has run out, but has not come to the row yet; then the
   * holder renews. The advisory lock inside the statement is the barrier between its look and its claim.
   */
  async function renewalBetweenLookAndClaim(withRecheck: boolean) {
    const faults = withoutGuard(
      ['WITH gone AS', 'WITH gate AS MATERIALIZED (SELECT pg_advisory_xact_lock(31)), gone AS'],
      ['WHERE h.expires_at <=', 'WHERE (SELECT count(*) FROM gate) = 1 AND h.expires_at <='],
      ...(withRecheck ? [] : [['FOR SHARE SKIP LOCKED', ''] as const]),
    );
    const [a, b] = [await cluster.replica(), await cluster.replica({ database: faults.database })];
    const { taskNo, generation } = await a.working();
    await a.heartbeat.runOnce();
    await expireLeases(cluster.db, taskNo);
    const hold = await holdLock(cluster.db, 'SELECT pg_advisory_xact_lock(31)');
    const sweeping = b.sweeper.runOnce();
    await untilBlocked(cluster.db);
    expect(await a.heartbeat.runOnce()).toBe(true);
    await hold.release();
    const swept = await sweeping;
    faults.expectGone();
    return { taskNo, generation, swept };
  }

  it("O31 the holder renews between a sweeper's look and its claim: the claim fails", async () => {
    const { taskNo, generation, swept } = await renewalBetweenLookAndClaim(true);
    expect(swept).toMatchObject({ claimed: 0 });
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation, expired: false });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
  });

  it('O31 negative control: a claim that does not lock and re-check the holder’s row takes a live lease', async () => {
    const { taskNo, swept } = await renewalBetweenLookAndClaim(false);
    expect(swept).toMatchObject({ claimed: 1, failed: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
  });

  it('O31 a renewal that is not committed yet is not waited for: the claim passes its leases by', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const [renewing, dead] = [await a.working(), await (await cluster.replica()).working()];
    await a.heartbeat.runOnce();
    await expireLeases(cluster.db);
    const renewal = `UPDATE a2a_replicas SET expires_at = clock_timestamp() + interval '1 minute' WHERE holder = $1`;
    const hold = await holdLock(cluster.db, renewal, [a.holderId]);
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 1, failed: 1 });
    await hold.release();
    expect(await logOf(cluster.db, renewing.taskNo)).toEqual(['task WORKING']);
    expect(await logOf(cluster.db, dead.taskNo)).toEqual(['task WORKING', 'status FAILED']);
  });

  it('O32 the completion is in flight when the sweep looks: COMPLETED stands, the sweep finds nothing', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo } = await a.working();
    await expireLeases(cluster.db, taskNo);
    const hold = await holdEvents(cluster.db);
    loop.add(artifact(scope, 'result', HOLD_HERE));
    loop.add(status(scope, COMPLETED));
    await untilBlocked(cluster.db);
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 0 });
    await hold.release();
    await turn.flush();
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 0 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact result', 'status COMPLETED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  /** B has claimed and read the task; then it is completed through the SDK's store; then B writes. */
  async function completionBetweenReadAndWrite() {
    const faults = interceptable();
    const [a, b] = [await cluster.replica(), await cluster.replica({ database: faults.database })];
    const scope = newScope();
    const { taskNo } = await a.working(scope);
    await expireLeases(cluster.db, taskNo);
    const pause = new Pause(READ_TASK, 'after');
    faults.get().intercept = pause.intercept;
    const sweeping = b.sweeper.runOnce();
    await pause.reached;
    return { a, b, scope, taskNo, pause, sweeping };
  }

  it('O32 the sweep has read, then the task is completed, then the sweep writes: nothing is overwritten', async () => {
    const { a, scope, taskNo, pause, sweeping } = await completionBetweenReadAndWrite();
    const call = callContextOf(scope);
    const loaded = await a.tasks.load(scope.taskId, call);
    await a.tasks.save({ ...loaded!, ...inState(COMPLETED) }, call);
    pause.resume();
    expect(await sweeping).toMatchObject({ claimed: 1, failed: 0, lost: 1, errors: 0 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status COMPLETED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('O32 the same with a save that ends nothing: the sweep reads again, and loses nothing of it', async () => {
    const { a, scope, taskNo, pause, sweeping } = await completionBetweenReadAndWrite();
    const call = callContextOf(scope);
    const loaded = await a.tasks.load(scope.taskId, call);
    await a.tasks.save({ ...loaded!, metadata: { saved: 'meanwhile' } }, call);
    pause.resume();
    expect(await sweeping).toMatchObject({ claimed: 1, failed: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'taskMerge', 'status FAILED']);
    expect((await a.tasks.find(scope))?.task.metadata).toEqual({ saved: 'meanwhile' });
  });

  it('O57 leases are held by heartbeat from the claim on: what waits for its turn is not claimed again', async () => {
    const dead = await cluster.replica();
    const faults = interceptable();
    const b = await cluster.replica({ database: faults.database });
    const running = await Promise.all(Array.from({ length: 12 }, () => dead.working()));
    await expireLeases(cluster.db);
    const reading = new Pause(READ_TASK, 'before', 'every');
    faults.get().intercept = reading.intercept;
    const sweeping = b.sweeper.runOnce();
    await reading.reached;
    await expireLeases(cluster.db); // a whole TTL goes by, but for the heartbeat
    expect(await b.heartbeat.runOnce()).toBe(true);
    expect(await (await cluster.replica()).sweeper.runOnce()).toMatchObject({ claimed: 0 });
    reading.resume();
    expect(await sweeping).toMatchObject({ claimed: 12, failed: 12 });
    for (const { taskNo } of running) expect((await logOf(cluster.db, taskNo)).at(-1)).toBe('status FAILED');
  });
});
