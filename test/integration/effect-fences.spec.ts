import { jest } from '@jest/globals';
import type { EffectCall } from '../../libs/a2a-cluster/src/effects/turn-effects.js';
import { LeaseLostError } from '../../libs/a2a-cluster/src/errors/lease-lost.error.js';
import { TaskCanceledError } from '../../libs/a2a-cluster/src/errors/task-canceled.error.js';
import { TurnUsageError } from '../../libs/a2a-cluster/src/errors/turn-usage.error.js';
import { Deferred } from '../../tools/harness/wait.js';
import { newScope, type RunningTurn, useCluster } from './cluster.fixture.js';
import { claimFrom, effectRows, errorOf } from './effects.fixture.js';
import { artifact, AUTH_REQUIRED, COMPLETED, INPUT_REQUIRED, message, status } from './events.fixture.js';
import { connectionReset, type DatabaseFactory, interceptable, Pause, withoutGuard } from './faults.fixture.js';
import { expireLeases, holdLock, leaseRow, logOf, taskRow, untilBlocked } from './rows.fixture.js';

const NEVER = { replay: 'never' } as const;
const DISPATCH = /INSERT INTO "a2a_task_effects"/;
const SETTLE = /UPDATE "a2a_task_effects"/;

const action = () => jest.fn(() => Promise.resolve('done'));

describe('Outside actions and the lease', () => {
  const cluster = useCluster();

  /** A is frozen before its dispatch, and B has claimed but not yet written FAILED. */
  async function dispatchAfterTheClaim(database?: DatabaseFactory) {
    const running = await (await cluster.replica(database && { database })).working();
    const { claimed, by } = await claimFrom(cluster, running);
    const run = action();
    const outcome = running.turn.effect('charge', NEVER, run);
    return { ...running, claimed, by, run, outcome };
  }

  it('O38 I3 between claim and FAILED a dispatch is refused: nothing is called, nothing recorded', async () => {
    const { taskNo, by, claimed, run, outcome } = await dispatchAfterTheClaim();
    expect(await errorOf(outcome)).toBeInstanceOf(LeaseLostError);
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation: claimed.generation });
    expect(await by.recovery.recover(by.claimOf(claimed))).toBe('failed');
  });

  it('O38 I3 negative control: without the generation in its WHERE, the stale owner dispatches', async () => {
    const guard = withoutGuard([
      /WHERE generation = (\$\d+) AND task_no = (\$\d+) AND greatest/,
      'WHERE $1::bigint > 0 AND task_no = $2 AND greatest',
    ]);
    const { run, outcome } = await dispatchAfterTheClaim(guard.database);
    expect(await errorOf(outcome)).toBeInstanceOf(LeaseLostError); // at its settlement, when it was too late
    guard.expectGone();
    expect(run).toHaveBeenCalledTimes(1);
  });

  /** B claims while A's action is under way at the outside. */
  async function settleAfterTheClaim(database?: DatabaseFactory) {
    const running = await (await cluster.replica(database && { database })).working();
    const [called, answer] = [new Deferred(), new Deferred<string>()];
    const outcome = running.turn.effect('charge', NEVER, () => (called.resolve(), answer.promise));
    outcome.catch(() => undefined);
    await called.promise;
    const { claimed } = await claimFrom(cluster, running);
    answer.resolve('done');
    return { ...running, claimed, outcome };
  }

  it('O38 I3 an outcome that comes after a claim is not recorded: unresolved is what the next one finds', async () => {
    const { taskNo, outcome } = await settleAfterTheClaim();
    expect(await errorOf(outcome)).toBeInstanceOf(LeaseLostError);
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'dispatched', result: null } });
  });

  it('O38 I3 negative control: without the generation in its WHERE, the outcome is recorded', async () => {
    const guard = withoutGuard([
      /WHERE generation = (\$\d+) AND task_no = (\$\d+) FOR KEY SHARE/,
      'WHERE $1::bigint > 0 AND task_no = $2 FOR KEY SHARE',
    ]);
    const { taskNo, outcome } = await settleAfterTheClaim(guard.database);
    expect(await outcome).toBe('done');
    guard.expectGone();
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'succeeded' } });
  });

  /** A claim while a dispatch has looked at its lease and is not through yet. */
  async function claimDuringADispatch(database?: DatabaseFactory) {
    const running = await (await cluster.replica(database && { database })).working();
    const { turn, taskNo } = running;
    // Somebody else's entry under the same key, not committed: the dispatch waits for it, in its middle.
    const hold = await holdLock(
      cluster.db,
      `INSERT INTO a2a_task_effects (task_no, turn_id, key, state, replay, attempt, generation)
       VALUES ($1, $2, 'charge', 'dispatched', 'never', 1, 0)`,
      [taskNo, turn.turnId],
    );
    const run = action();
    const outcome = turn.effect('charge', NEVER, run);
    outcome.catch(() => undefined);
    await untilBlocked(cluster.db);
    const { claimed } = await claimFrom(cluster, running);
    await hold.release('ROLLBACK');
    return { outcome, claimed, run };
  }

  it('I3 a dispatch in flight holds its lease against a claim', async () => {
    const { outcome, claimed, run } = await claimDuringADispatch();
    expect(claimed).toBeUndefined();
    expect(await outcome).toBe('done');
    expect(run).toHaveBeenCalledTimes(1);
  });

  it('I3 negative control: a look at the lease without a row lock lets the claim come between', async () => {
    const guard = withoutGuard([/> clock_timestamp\(\) FOR KEY SHARE/, '> clock_timestamp()']);
    const { outcome, claimed, run } = await claimDuringADispatch(guard.database);
    guard.expectGone();
    expect(claimed).toBeDefined();
    expect(await errorOf(outcome)).toBeInstanceOf(LeaseLostError); // at its settlement, when it was too late
    expect(run).toHaveBeenCalledTimes(1);
  });

  it('I7 a lease that has run out permits no dispatch, claimed or not', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    await expireLeases(cluster.db, taskNo);
    const run = action();
    expect(await errorOf(turn.effect('charge', NEVER, run))).toBeInstanceOf(LeaseLostError);
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  it('I3 expiry alone refuses no outcome: one that nobody has claimed the lease of is recorded', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const result = await turn.effect('charge', NEVER, async () => {
      await expireLeases(cluster.db, taskNo);
      return 'done';
    });
    expect(result).toBe('done');
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'succeeded', result: '"done"' } });
  });

  it('O20 past the local deadline nothing is called where no renewal comes through', async () => {
    const a = await cluster.replica();
    const { turn, taskNo } = await a.working();
    await a.heartbeat.stop();
    Object.assign(turn.lease!, { deadline: performance.now() });
    const run = action();
    expect(await errorOf(turn.effect('charge', NEVER, run))).toBeInstanceOf(LeaseLostError);
    expect(turn.signal.aborted).toBe(true);
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  it('O20 past the local deadline a lease that a renewal still finds is confirmed first, and then it is called', async () => {
    const { turn } = await (await cluster.replica()).working();
    Object.assign(turn.lease!, { deadline: performance.now() });
    expect(await turn.effect('charge', NEVER, action())).toBe('done');
    expect(turn.signal.aborted).toBe(false);
  });

  it.each(['stopped', 'past its deadline'])(
    'I7 a turn that is %s while its dispatch is recorded calls nothing, and says that nothing was performed',
    async (how) => {
      const faults = interceptable();
      const a = await cluster.replica({ database: faults.database });
      const { turn, taskNo } = await a.working();
      await a.heartbeat.stop();
      const pause = new Pause(DISPATCH, 'after');
      faults.get().intercept = pause.intercept;
      const run = action();
      const outcome = errorOf(turn.effect('charge', NEVER, run));
      await pause.reached;
      const stopped = new TaskCanceledError(turn.taskId);
      if (how === 'stopped') turn.abort(stopped);
      else Object.assign(turn.lease!, { deadline: performance.now() });
      pause.resume();
      expect(await outcome).toEqual(how === 'stopped' ? stopped : expect.any(LeaseLostError));
      expect(run).not.toHaveBeenCalled();
      expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'not_performed' } });
    },
  );

  it('O40 a cancel that was asked for elsewhere: nothing is called, TaskCanceledError', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, turn, taskNo } = await a.working();
    await turn.effect('before', NEVER, () => 'done');
    await b.tasks.requestCancel(scope, b.leaseRequest('cancel'));
    const run = action();
    expect(await errorOf(turn.effect('charge', NEVER, run))).toBeInstanceOf(TaskCanceledError);
    expect(run).not.toHaveBeenCalled();
    expect(Object.keys(await effectRows(cluster.db, taskNo))).toEqual(['before']);
    expect(turn.cancellation).toBeDefined();
  });

  it('O40 an action that was under way when the cancel came is recorded with its outcome', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, turn, taskNo } = await a.working();
    const result = await turn.effect('charge', NEVER, async () => {
      await b.tasks.requestCancel(scope, b.leaseRequest('cancel'));
      turn.abort(new TaskCanceledError(turn.taskId));
      return 'done';
    });
    expect(result).toBe('done');
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'succeeded' } });
  });

  it('I2 before the first event of a new task: the task, SUBMITTED, and its lease are there first', async () => {
    const a = await cluster.replica();
    const scope = newScope();
    const turn = await a.startTurn(scope, message());
    let token: number | undefined;
    await turn.effect('charge', NEVER, async ({ fencingToken }) => {
      token = fencingToken;
      const { taskNo } = (await a.tasks.find(scope))!;
      expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'SUBMITTED', version: 1 });
      expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation: token, holder: a.holderId });
    });
    expect(token).toEqual(turn.fencingToken);
    turn.loop!.add(status(scope, COMPLETED));
    await turn.flush();
    expect(await logOf(cluster.db, turn.loop!.key!.taskNo)).toEqual(['task SUBMITTED', 'status COMPLETED']);
    expect((await a.tasks.find(scope))!.task.history).toHaveLength(1);
  });

  it('an action waits until what was published before it is stored', async () => {
    const faults = interceptable();
    const { scope, loop, turn, taskNo } = await (await cluster.replica({ database: faults.database })).working();
    const sent: string[] = [];
    faults.get().intercept = (sql, run) => {
      sent.push(/(INSERT INTO|UPDATE) "\w+"/.exec(sql)?.[0] ?? sql);
      return run();
    };
    loop.add(artifact(scope, 'a1'));
    await turn.effect('charge', NEVER, async () => {
      expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1']);
    });
    expect(sent).toEqual(['UPDATE "a2a_tasks"', 'INSERT INTO "a2a_task_effects"', 'UPDATE "a2a_task_effects"']);
  });

  it.each([
    ['COMPLETED', COMPLETED],
    ['INPUT_REQUIRED', INPUT_REQUIRED],
  ])('after the last event of its turn, %s, an action is refused', async (_name, state) => {
    const { scope, loop, turn, taskNo } = await (await cluster.replica()).working();
    loop.add(status(scope, state));
    const run = action();
    for (const stored of [false, true]) {
      if (stored) await turn.flush();
      const error = await errorOf(turn.effect('charge', NEVER, run));
      expect(error).toBeInstanceOf(TurnUsageError);
      expect(error.message).toBe(`The turn on task ${scope.taskId} has ended: its effects come before its last event.`);
    }
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  it('after AUTH_REQUIRED the turn goes on, and so do its actions', async () => {
    const { scope, loop, turn } = await (await cluster.replica()).working();
    loop.add(status(scope, AUTH_REQUIRED));
    expect(await turn.effect('charge', NEVER, action())).toBe('done');
  });

  /** The next statement like this breaks off, `times` in a row, done or not. */
  function breaking(statement: RegExp, how: 'done' | 'not done', times: number) {
    const faults = interceptable();
    let left = times;
    const start = (): void => {
      faults.get().intercept = async (sql, run) => {
        if (left === 0 || !statement.test(sql)) return run();
        left -= 1;
        if (how === 'done') await run();
        throw connectionReset();
      };
    };
    return { ...faults, start, left: () => left };
  }

  const lost = (['done', 'not done'] as const).flatMap((how) => [
    ['dispatch', how, 'never', DISPATCH] as const,
    ['dispatch', how, 'idempotent', DISPATCH] as const,
    ['settlement', how, 'never', SETTLE] as const,
  ]);

  it.each(lost)(
    'O53 the answer to a %s is lost (%s, %s): called once, recorded once',
    async (_what, how, replay, sql) => {
      const fault = breaking(sql, how, 2);
      const { turn, taskNo, generation } = await (await cluster.replica({ database: fault.database })).working();
      fault.start();
      const run = action();
      expect(await turn.effect('charge', { replay }, run)).toBe('done');
      expect([fault.left(), run.mock.calls.length]).toEqual([0, 1]);
      expect(await effectRows(cluster.db, taskNo)).toEqual({
        charge: { state: 'succeeded', replay, attempt: 1, generation, result: '"done"', settled: true },
      });
    },
  );

  it.each(['done', 'not done'] as const)('O53 the answer that nothing was performed is lost (%s)', async (how) => {
    const fault = breaking(SETTLE, how, 2);
    const { turn, taskNo } = await (await cluster.replica({ database: fault.database })).working();
    await errorOf(turn.effect('charge', { replay: 'idempotent' }, () => Promise.reject(new Error('lost'))));
    fault.start();
    const replay = jest.fn(() => ({ outcome: 'not_performed' as const }));
    const run = action();
    expect(await turn.effect('charge', { replay }, run)).toBe('done');
    expect([replay.mock.calls.length, run.mock.calls.length]).toEqual([1, 1]);
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'succeeded' } });
  });

  /** The database is away from this statement on, until the lease can be relied on no longer. */
  async function awayPastTheDeadline(statement: RegExp): Promise<RunningTurn & { run: jest.Mock; error: Error }> {
    const faults = interceptable();
    const a = await cluster.replica({ database: faults.database });
    const running = await a.working();
    await a.heartbeat.stop();
    let deadline: number | undefined;
    faults.get().intercept = (sql, run) => {
      if (!statement.test(sql)) return run();
      Object.assign(running.turn.lease!, { deadline: (deadline ??= performance.now() + 30) });
      return Promise.reject(connectionReset());
    };
    const run = action();
    const error = await errorOf(running.turn.effect('charge', NEVER, run));
    return { ...running, run, error };
  }

  it('I6 the database is away past the deadline, at the dispatch: LeaseLostError, nothing called', async () => {
    const { taskNo, run, error } = await awayPastTheDeadline(DISPATCH);
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(error.cause).toMatchObject({ code: 'A2A_STORE_UNAVAILABLE', cause: { code: 'ECONNRESET' } });
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  it('I6 the database is away past the deadline, at the settlement: LeaseLostError, and unresolved', async () => {
    const { taskNo, run, error } = await awayPastTheDeadline(SETTLE);
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(run).toHaveBeenCalledTimes(1);
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'dispatched' } });
  });

  it('without leases an action is recorded all the same, until its task has ended', async () => {
    const a = await cluster.replica({ leased: false });
    const scope = newScope();
    const turn = await a.startTurn(scope, message());
    const [run, late] = [jest.fn((call: EffectCall) => Promise.resolve(call.fencingToken ?? 'none')), action()];
    expect(await turn.effect('charge', NEVER, run)).toBe('none');
    expect(await turn.effect('charge', NEVER, run)).toBe('none');
    expect(run).toHaveBeenCalledTimes(1);
    const { taskNo } = turn.loop!.key!;
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'succeeded', generation: 0 } });
    await cluster.db.query("UPDATE a2a_tasks SET state = 'TASK_STATE_CANCELED' WHERE task_no = $1", [taskNo]);
    expect(await errorOf(turn.effect('late', NEVER, late))).toBeInstanceOf(LeaseLostError);
    expect(late).not.toHaveBeenCalled();
  });
});
