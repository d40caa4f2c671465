import { optionsWith } from '../helpers/options.js';
import { LeaseLostError } from '../../libs/a2a-cluster/src/errors/lease-lost.error.js';
import { TurnTimeoutError } from '../../libs/a2a-cluster/src/errors/turn-timeout.error.js';
import { EFFECTS_METADATA_KEY } from '../../libs/a2a-cluster/src/effects/unresolved-effects.js';
import { TurnConclusion } from '../../libs/a2a-cluster/src/turns/turn-conclusion.js';
import type { TurnExecution } from '../../libs/a2a-cluster/src/turns/turn-execution.js';
import { Deferred, eventually, within } from '../../tools/harness/wait.js';
import { newScope, type Replica, useCluster } from './cluster.fixture.js';
import { artifact, message, status, taskEvent, WORKING } from './events.fixture.js';
import { connectionReset, interceptable, type Interception, Pause } from './faults.fixture.js';
import { expireLeases, leaseRow, logOf, taskRow } from './rows.fixture.js';

const COMMIT = /INSERT INTO "a2a_task_events"/;

/** As the server says it of a statement that takes too long, however often it is sent. */
const tooLong = (): Error => Object.assign(new Error('canceling statement'), { code: '57014' });

const failing =
  (statement: RegExp, error: () => Error): Interception =>
  (sql, run) =>
    statement.test(sql) ? Promise.reject(error()) : run();

describe('What a turn has under way is bounded', () => {
  const cluster = useCluster();

  const concludedBy = (a: Replica, handsOver: boolean): TurnConclusion => {
    const options = optionsWith({
      turns: { cancelTimeoutMs: 1 },
      sweeper: { policy: handsOver ? 're-execute' : 'fail' },
    });
    return new TurnConclusion(a.stream, a.leases, a.effects, options);
  };

  const aborted = ({ signal }: TurnExecution): Promise<boolean> => eventually(() => signal.aborted);

  it('B.5 events that cannot be stored for one TTL give the lease up, though renewals go on', async () => {
    const faults = interceptable();
    const a = await cluster.replica({ times: { heartbeatIntervalMs: 40, ttlMs: 400 }, database: faults.database });
    const { turn, loop, scope } = await a.working();
    a.heartbeat.start();
    faults.get().intercept = failing(COMMIT, tooLong);
    loop.add(status(scope, WORKING));
    await aborted(turn);
    const lost = turn.signal.reason as LeaseLostError;
    expect(lost).toBeInstanceOf(LeaseLostError);
    expect(lost.message).toMatch(/could not be stored for 400 ms/);
    expect(lost.cause).toMatchObject({ code: 'A2A_STORE_UNAVAILABLE', cause: { code: '57014' } });
    expect(a.heartbeat.generations).toEqual([]);
  });

  it('B.5 the same for an effect that cannot be recorded', async () => {
    const faults = interceptable();
    const a = await cluster.replica({ times: { heartbeatIntervalMs: 40, ttlMs: 400 }, database: faults.database });
    const { turn } = await a.working();
    a.heartbeat.start();
    faults.get().intercept = failing(/INSERT INTO "a2a_task_effects"/, tooLong);
    const effect = turn.effect('charge', { replay: 'never' }, () => 1);
    await expect(within(effect, 10_000, 'the effect comes back')).rejects.toThrow(/effects could not be recorded/);
  });

  it('B.5 a flush ends with its turn, whatever the database does', async () => {
    const faults = interceptable();
    const a = await cluster.replica({ database: faults.database });
    const { turn, loop, scope } = await a.working();
    const stalled = new Pause(COMMIT, 'before');
    faults.get().intercept = stalled.intercept;
    loop.add(status(scope, WORKING));
    await stalled.reached;
    const flushed = turn.flush();
    const reason = new TurnTimeoutError(turn.taskId, 1);
    turn.abort(reason);
    await expect(within(flushed, 10_000, 'the flush comes back')).rejects.toBe(reason);
    await expect(turn.flush()).rejects.toBe(reason);
    stalled.resume();
    await loop.drained();
  });

  it('B.6 an event that cannot be copied changes nothing, and the turn goes on', async () => {
    const a = await cluster.replica();
    const { loop, scope, taskNo, turn } = await a.working();
    const [fine, odd] = [artifact(scope, 'a1'), artifact(scope, 'odd')].map((event) => {
      if (event.kind !== 'artifactUpdate') throw new Error('It is no artifact');
      return event.artifactUpdate.artifact!;
    });
    odd!.metadata = { size: 1n };
    const { contextId } = loop.current!;
    const update = {
      taskId: scope.taskId,
      contextId,
      artifact: odd,
      append: false,
      lastChunk: true,
      metadata: undefined,
    };
    expect(() => loop.add({ kind: 'artifactUpdate', artifactUpdate: update })).toThrow(TypeError);
    // A Task event becomes an update for each of its artifacts: the first of them alone would be half of what was said.
    expect(() => loop.add(taskEvent(scope, { artifacts: [fine!, odd!] }))).toThrow(TypeError);
    await turn.flush();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
    loop.add(artifact(scope, 'a2'));
    await turn.flush();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a2']);
  });

  it('B.6 a turn that was given up takes no lease when its first commit comes through late', async () => {
    const faults = interceptable();
    const a = await cluster.replica({ database: faults.database });
    const scope = newScope();
    const turn = await a.startTurn(scope, message());
    const late = new Pause(COMMIT, 'after');
    faults.get().intercept = late.intercept;
    turn.loop!.add(taskEvent(scope));
    await late.reached;
    turn.loop!.refuse(new LeaseLostError(turn.taskId, 'it is over'));
    const stored = new Deferred();
    const committed = a.stream.committed.bind(a.stream);
    a.stream.committed = (...told) => {
      committed(...told);
      stored.resolve();
    };
    late.resume();
    await within(stored.promise, 10_000, 'the commit is told');
    const { taskNo } = turn.loop!.key!;
    expect(await leaseRow(cluster.db, taskNo)).toBeDefined();
    expect(a.heartbeat.generations).toEqual([]);
    expect(turn.lease).toBeUndefined();
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'WORKING' });
  });

  it('B.9 I7 a FAILED names what is unresolved, even where that could not be read at the first try', async () => {
    const faults = interceptable();
    const a = await cluster.replica({ database: faults.database });
    const { turn, taskNo } = await a.working();
    await expect(
      turn.effect('charge', { replay: 'never' }, () => Promise.reject(new Error('no answer'))),
    ).rejects.toThrow('no answer');
    let failures = 2;
    faults.get().intercept = (sql, run) => {
      if (!/state = 'dispatched'\s+ORDER BY/.test(sql) || failures === 0) return run();
      failures -= 1;
      return Promise.reject(connectionReset());
    };
    await concludedBy(a, false).conclude(turn, { kind: 'threw', error: new Error('gave up') });
    expect(failures).toBe(0);
    const { task } = (await a.tasks.findByNo(taskNo))!;
    expect(task.status?.message?.metadata?.[EFFECTS_METADATA_KEY]).toMatchObject([{ key: 'charge' }]);
  });

  describe('the sender of a follow-up that has published nothing', () => {
    it('I6 is answered with the task where a shutdown hands the turn over', async () => {
      const a = await cluster.replica();
      const { scope, taskNo } = await a.waiting();
      const turn = await a.followUp(scope, message('answer'));
      turn.shutDown(Promise.resolve());
      await concludedBy(a, true).conclude(turn, { kind: 'threw', error: turn.signal.reason });
      expect(await turn.opened).toMatchObject({ kind: 'task', taskNo, version: turn.version });
      expect(await turn.outcome).toEqual({ kind: 'lost', taskNo });
      expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: null });
    });

    it('I6 is answered with the task where the lease is found lost as it is let go', async () => {
      const [a, b] = [await cluster.replica(), await cluster.replica()];
      const { scope, taskNo } = await a.waiting();
      const turn = await a.followUp(scope, message('answer'));
      await expireLeases(cluster.db, taskNo);
      expect(await b.sweeper.runOnce()).toMatchObject({ failed: 1 });
      await concludedBy(a, false).conclude(turn, { kind: 'returned' });
      expect(await turn.opened).toMatchObject({ kind: 'task', taskNo, version: turn.version });
      expect(await turn.outcome).toEqual({ kind: 'lost', taskNo });
      expect(turn.signal.reason).toBeInstanceOf(LeaseLostError);
    });
  });
});
