import { randomUUID } from 'node:crypto';
import { callContextOf, isLost, type RunningTurn, useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, status, WORKING } from './events.fixture.js';
import { connectionReset, type Guardless, withoutGuard } from './faults.fixture.js';
import { groupingReplica, interceptGroups, publishTogether, turnsAtWork } from './group.fixture.js';
import {
  expireLeases,
  HOLD_HERE,
  holdEvents,
  holdLock,
  holdTask,
  leaseRow,
  logOf,
  REFUSED,
  refuseEvents,
  taskRow,
  untilBlocked,
} from './rows.fixture.js';

const LEASE_OF_TURN = 'WHERE generation = t.generation AND task_no = t.task_no';

const claimFor = (holder: string) => ({ holder, ttlMs: 60_000, limit: 10 });

const working = (turn: RunningTurn, text?: string) => [turn, status(turn.scope, WORKING, text)] as const;
const completed = (turn: RunningTurn) => [turn, status(turn.scope, COMPLETED)] as const;

describe('Commits of several turns in one statement', () => {
  const cluster = useCluster();

  const logsOf = async (turns: readonly RunningTurn[]): Promise<string[][]> => {
    const logs: string[][] = [];
    for (const { taskNo } of turns) logs.push(await logOf(cluster.db, taskNo));
    return logs;
  };

  /** The generations of their leases; undefined where there is none. */
  const generationsOf = async (turns: readonly RunningTurn[]): Promise<(number | undefined)[]> => {
    const generations: (number | undefined)[] = [];
    for (const { taskNo } of turns) generations.push((await leaseRow(cluster.db, taskNo))?.generation);
    return generations;
  };

  it('I2 I3 some go on, some end: each has its events, its state and its lease as if it had gone alone', async () => {
    const a = await groupingReplica(cluster);
    const turns = await turnsAtWork(a, 6);
    const [going, ending] = [turns.slice(0, 3), turns.slice(3)];
    const flushed = await publishTogether(a, [...going.map((turn) => working(turn)), ...ending.map(completed)]);
    expect(await Promise.all(flushed)).toEqual(turns.map(() => undefined));
    expect(a.groups()).toBe(1);
    for (const { taskNo, generation, turn } of going) {
      const row = { state: 'WORKING', version: 2, stateVersion: 2, snapshotVersion: 1 };
      expect(await taskRow(cluster.db, taskNo)).toEqual(row);
      expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status WORKING']);
      expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation, holder: a.holderId });
      expect(turn.signal.aborted).toBe(false);
    }
    for (const { taskNo } of ending) {
      const row = { state: 'COMPLETED', version: 2, stateVersion: 2, snapshotVersion: 2 };
      expect(await taskRow(cluster.db, taskNo)).toEqual(row);
      expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status COMPLETED']);
      expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    }
  });

  it('I5 each has its own events, in their order, however many they are', async () => {
    const a = await groupingReplica(cluster);
    const turns = await turnsAtWork(a, 5);
    const versions = turns.map(({ scope, taskNo, generation }, at) => {
      const events = Array.from({ length: 5 - at }, (_, place) => artifact(scope, `${at}.${place}`));
      const options = { expectedVersion: 1, commitId: randomUUID(), endsTurn: false, generation };
      return a.tasks.append({ taskNo, taskId: scope.taskId }, events, options);
    });
    expect(await Promise.all(versions)).toEqual([6, 5, 4, 3, 2]);
    expect(a.groups()).toBe(1);
    expect(await logsOf(turns)).toEqual(
      turns.map((_turn, at) => [
        'task WORKING',
        ...Array.from({ length: 5 - at }, (_, place) => `artifact ${at}.${place}`),
      ]),
    );
    expect(await taskRow(cluster.db, turns[4]!.taskNo)).toMatchObject({ state: 'WORKING', stateVersion: 1 });
  });

  /** The lease of the first of three turns was claimed by B when their commits come. */
  async function oneWasClaimed(ending: boolean, guard?: Guardless) {
    const [a, b] = [await groupingReplica(cluster, { guard }), await cluster.replica()];
    const turns = await turnsAtWork(a, 3);
    await expireLeases(cluster.db, turns[0]!.taskNo);
    const [claimed] = await b.leases.claim(claimFor(b.holderId));
    const flushed = await Promise.all(
      await publishTogether(a, turns.map(ending ? completed : (turn) => working(turn))),
    );
    expect(a.groups()).toBe(1);
    return { b, turns, claimed: claimed!, flushed, logs: await logsOf(turns) };
  }

  it.each([
    ['going on', false, 'status WORKING'],
    ['ending', true, 'status COMPLETED'],
  ])('I3 one whose lease was claimed writes nothing, and keeps nobody from %s', async (_what, ending, last) => {
    const { b, turns, claimed, flushed, logs } = await oneWasClaimed(ending);
    expect(flushed.map(isLost)).toEqual([true, false, false]);
    expect(logs).toEqual([['task WORKING'], ['task WORKING', last], ['task WORKING', last]]);
    expect(await leaseRow(cluster.db, turns[0]!.taskNo)).toMatchObject({
      generation: claimed.generation,
      holder: b.holderId,
    });
  });

  it.each([
    ['going on', false, 'status WORKING'],
    ['ending', true, 'status COMPLETED'],
  ])('I3 negative control, %s: without the generation the late commit is stored', async (_what, ending, last) => {
    const guard = withoutGuard(
      [LEASE_OF_TURN, 'WHERE task_no = t.task_no'],
      [LEASE_OF_TURN, 'WHERE task_no = t.task_no'],
    );
    const { logs } = await oneWasClaimed(ending, guard);
    guard.expectGone();
    expect(logs[0]).toEqual(['task WORKING', last]);
  });

  /** The first of three tasks has ended, as a foreign hand would do it: with its version and its lease as they were. */
  async function oneHasEnded(guard?: Guardless) {
    const a = await groupingReplica(cluster, { guard });
    const turns = await turnsAtWork(a, 3);
    const { taskNo } = turns[0]!;
    await cluster.db.query(`UPDATE a2a_tasks SET state = 'TASK_STATE_CANCELED' WHERE task_no = $1`, [taskNo]);
    const flushed = await Promise.all(await publishTogether(a, turns.map(completed)));
    expect(a.groups()).toBe(1);
    return { flushed, state: (await taskRow(cluster.db, taskNo)).state, logs: await logsOf(turns.slice(1)) };
  }

  it('I4 one that has ended stays as it ended', async () => {
    const { flushed, state, logs } = await oneHasEnded();
    expect(flushed.map(isLost)).toEqual([true, false, false]);
    expect(state).toBe('CANCELED');
    expect(logs).toEqual(Array(2).fill(['task WORKING', 'status COMPLETED']));
  });

  it('I4 negative control: without a look at the state it ends once more', async () => {
    const guard = withoutGuard([/AND state NOT IN \([^)]*\)(?=\s+FOR UPDATE SKIP LOCKED)/, '']);
    const { state } = await oneHasEnded(guard);
    guard.expectGone();
    expect(state).toBe('COMPLETED');
  });

  it('I3 one that somebody saved meanwhile follows on that, alone', async () => {
    const [a, b] = [await groupingReplica(cluster), await cluster.replica()];
    const turns = await turnsAtWork(a, 3);
    const context = callContextOf(turns[0]!.scope);
    const task = (await b.tasks.load(turns[0]!.scope.taskId, context))!;
    await b.tasks.save({ ...task, metadata: { by: 'hand' } }, context);
    const flushed = await Promise.all(await publishTogether(a, turns.map(completed)));
    expect(flushed).toEqual([undefined, undefined, undefined]);
    expect(a.groups()).toBe(1);
    expect(await logsOf(turns)).toEqual([
      ['task WORKING', 'taskMerge', 'status COMPLETED'],
      ['task WORKING', 'status COMPLETED'],
      ['task WORKING', 'status COMPLETED'],
    ]);
  });

  /** Somebody holds the row of the first of three tasks while their commits come. */
  async function oneTaskIsLocked(guard?: Guardless) {
    const a = await groupingReplica(cluster, { guard, patient: true });
    const turns = await turnsAtWork(a, 3);
    const hold = await holdTask(cluster.db, turns[0]!.taskNo);
    const flushed = await publishTogether(a, turns.map(completed));
    return { turns, hold, flushed };
  }

  it('I6 one whose task is locked waits alone', async () => {
    const { turns, hold, flushed } = await oneTaskIsLocked();
    expect(await Promise.all(flushed.slice(1))).toEqual([undefined, undefined]);
    await untilBlocked(cluster.db);
    expect((await taskRow(cluster.db, turns[0]!.taskNo)).state).toBe('WORKING');
    await hold.release();
    expect(await flushed[0]).toBeUndefined();
    expect(await logsOf(turns)).toEqual(Array(3).fill(['task WORKING', 'status COMPLETED']));
  });

  it('I6 negative control: a group that waits for locks keeps all of its turns waiting', async () => {
    const guard = withoutGuard([/FOR UPDATE SKIP LOCKED OFFSET 0(?=\s+\) AS locked)/, 'FOR UPDATE OFFSET 0']);
    const { turns, hold, flushed } = await oneTaskIsLocked(guard);
    await untilBlocked(cluster.db);
    guard.expectGone();
    expect(await logsOf(turns)).toEqual(Array(3).fill(['task WORKING']));
    await hold.release();
    expect(await Promise.all(flushed)).toEqual([undefined, undefined, undefined]);
  });

  /** A renewal round has come as far as the second of two leases, and has the first one before it. */
  async function renewalInTheOtherOrder(guard?: Guardless) {
    const a = await groupingReplica(cluster, { guard, patient: true });
    const turns = await turnsAtWork(a, 2);
    const renew = 'UPDATE a2a_task_leases SET renewed_at = clock_timestamp() WHERE task_no = $1';
    const renewal = await holdLock(cluster.db, renew, [turns[1]!.taskNo]);
    await renewal.query(`SET LOCAL deadlock_timeout = '10ms'`);
    const flushed = await publishTogether(a, turns.map(completed));
    await untilBlocked(cluster.db);
    const renewed = await renewal.query(renew, [turns[0]!.taskNo]).catch(String);
    await renewal.release(renewed === undefined ? 'COMMIT' : 'ROLLBACK');
    await Promise.all(flushed);
    return { renewed, logs: await logsOf(turns) };
  }

  it('I6 a renewal that takes the leases in another order and a group are no deadlock', async () => {
    const { renewed, logs } = await renewalInTheOtherOrder();
    expect(renewed).toBeUndefined();
    expect(logs).toEqual(Array(2).fill(['task WORKING', 'status COMPLETED']));
  });

  it('I6 negative control: they are one where the group waits for leases', async () => {
    const guard = withoutGuard([/FOR UPDATE SKIP LOCKED OFFSET 0(?=\) AS locked)/, 'FOR UPDATE OFFSET 0']);
    const { renewed } = await renewalInTheOtherOrder(guard);
    guard.expectGone();
    expect(renewed).toMatch(/deadlock detected/);
  });

  it('I3 what changes between the look at a row and its lock is seen: the row is judged as it is then', async () => {
    const [a, b] = [await groupingReplica(cluster, { patient: true }), await cluster.replica()];
    const turns = await turnsAtWork(a, 5);
    const [claimed, saved, ended, renewed, as] = turns as [
      RunningTurn,
      RunningTurn,
      RunningTurn,
      RunningTurn,
      RunningTurn,
    ];
    const gate = await holdLock(cluster.db, 'SELECT pg_advisory_xact_lock(471200)');
    // Its snapshot is taken by then, and nothing is locked yet.
    interceptGroups(a.database, (sql, run) =>
      run(sql.replace('SELECT i.* FROM', 'SELECT i.* FROM (SELECT pg_advisory_xact_lock_shared(471200)) AS gate,')),
    );
    const flushed = await publishTogether(a, turns.map(completed));
    await untilBlocked(cluster.db);
    await expireLeases(cluster.db, claimed.taskNo);
    const [claim] = await b.leases.claim(claimFor(b.holderId));
    const context = callContextOf(saved.scope);
    const task = (await b.tasks.load(saved.scope.taskId, context))!;
    await b.tasks.save({ ...task, metadata: { by: 'hand' } }, context);
    await b.tasks.forceEnd(ended.scope, () => status(ended.scope, COMPLETED, 'forced'));
    await a.leases.renew(a.holderId, [renewed.generation], 60_000);
    await gate.release();
    expect((await Promise.all(flushed)).map(isLost)).toEqual([true, false, true, false, false]);
    expect(a.groups()).toBe(1);
    expect(await logsOf(turns)).toEqual([
      ['task WORKING'],
      ['task WORKING', 'taskMerge', 'status COMPLETED'],
      ['task WORKING', 'status COMPLETED'],
      ['task WORKING', 'status COMPLETED'],
      ['task WORKING', 'status COMPLETED'],
    ]);
    expect(await generationsOf(turns)).toEqual([claim!.generation, ...Array<undefined>(4).fill(undefined)]);
    expect(as.turn.signal.aborted).toBe(false);
  });

  /** A group stands before its end, with all of its locks, when the leases run out. */
  async function groupInFlight(guard?: Guardless) {
    const [a, b] = [await groupingReplica(cluster, { guard, patient: true }), await cluster.replica()];
    const turns = await turnsAtWork(a, 3);
    const [going, holding, ending] = turns as [RunningTurn, RunningTurn, RunningTurn];
    const hold = await holdEvents(cluster.db);
    const flushed = await publishTogether(a, [working(going), working(holding, HOLD_HERE), completed(ending)]);
    await untilBlocked(cluster.db);
    return { a, b, turns, hold, flushed };
  }

  it('I3 a group in flight holds all of its leases against a claim, and lets a renewal pass', async () => {
    const { a, b, turns, hold, flushed } = await groupInFlight();
    await expireLeases(cluster.db, turns[0]!.taskNo, turns[1]!.taskNo);
    expect(await b.leases.claim(claimFor(b.holderId))).toEqual([]);
    const going = turns.slice(0, 2).map(({ generation }) => generation);
    const renewed = await a.leases.renew(a.holderId, going, 60_000);
    expect(renewed?.map(({ generation }) => generation).sort()).toEqual(going.sort());
    await hold.release();
    expect(await Promise.all(flushed)).toEqual([undefined, undefined, undefined]);
  });

  it('I3 negative control: without the lock a claim comes between', async () => {
    const guard = withoutGuard(['FOR KEY SHARE SKIP LOCKED OFFSET 0', 'OFFSET 0']);
    const { b, turns, hold, flushed } = await groupInFlight(guard);
    guard.expectGone();
    await expireLeases(cluster.db, turns[0]!.taskNo, turns[1]!.taskNo);
    expect(await b.leases.claim(claimFor(b.holderId))).toHaveLength(2);
    await hold.release();
    // Claimed, and yet the old holder's events came in after that.
    expect(await Promise.all(flushed)).toEqual([undefined, undefined, undefined]);
  });

  it('O3 an event that the database refuses is refused alone, and its turn stores nothing of it', async () => {
    await refuseEvents(cluster.db);
    const a = await groupingReplica(cluster);
    const turns = await turnsAtWork(a, 3);
    const [first, refused, last] = turns as [RunningTurn, RunningTurn, RunningTurn];
    const flushed = await Promise.all(
      await publishTogether(a, [completed(first), working(refused, REFUSED), completed(last)]),
    );
    expect(flushed.map(isLost)).toEqual([false, true, false]);
    expect((flushed[1] as Error).message).toMatch(/the database refuses its events/);
    expect(await logsOf(turns)).toEqual([
      ['task WORKING', 'status COMPLETED'],
      ['task WORKING'],
      ['task WORKING', 'status COMPLETED'],
    ]);
  });

  it.each([
    ['done', true],
    ['not done', false],
  ])('O53 a group whose answer was lost, %s: each commit is there once, and its turn goes on', async (_what, done) => {
    const a = await groupingReplica(cluster);
    const turns = await turnsAtWork(a, 3);
    let lost = false;
    interceptGroups(a.database, async (_sql, run) => {
      if (lost) return run();
      lost = true;
      if (done) await run();
      throw connectionReset();
    });
    const flushed = await publishTogether(a, turns.map(completed));
    expect(await Promise.all(flushed)).toEqual([undefined, undefined, undefined]);
    expect(lost).toBe(true);
    expect(await logsOf(turns)).toEqual(Array(3).fill(['task WORKING', 'status COMPLETED']));
    expect(await generationsOf(turns)).toEqual([undefined, undefined, undefined]);
  });

  it('I2 of two commits of one task in a group one is stored, and the other is refused', async () => {
    const a = await groupingReplica(cluster);
    const { scope, taskNo, generation } = await a.working();
    const others = await turnsAtWork(a, 2);
    const append = (turn: Pick<RunningTurn, 'scope' | 'taskNo' | 'generation'>, endsTurn: boolean) =>
      a.tasks.append(
        { taskNo: turn.taskNo, taskId: turn.scope.taskId },
        [status(turn.scope, endsTurn ? COMPLETED : WORKING)],
        { expectedVersion: 1, commitId: randomUUID(), endsTurn, generation: turn.generation },
      );
    const before = others.map((other) => append(other, false));
    const both = await Promise.allSettled([true, false].map((ends) => append({ scope, taskNo, generation }, ends)));
    await Promise.all(before);
    expect(a.groups()).toBe(1);
    expect(both.map((settled) => settled.status)).toEqual(['fulfilled', 'rejected']);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status COMPLETED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('a commit that is too large to share a statement goes alone', async () => {
    const a = await groupingReplica(cluster);
    const turns = await turnsAtWork(a, 2);
    const flushed = await publishTogether(a, turns.map((turn) => working(turn, 'x'.repeat(40_000)))); // prettier-ignore
    expect(await Promise.all(flushed)).toEqual([undefined, undefined]);
    expect(a.groups()).toBe(0);
  });
});
