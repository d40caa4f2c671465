import { randomUUID } from 'node:crypto';
import { ConcurrentTaskModificationError } from '../../libs/a2a-cluster/src/errors/concurrent-task-modification.error.js';
import type { AppendOptions } from '../../libs/a2a-cluster/src/tasks/task-store.js';
import { callContextOf, newScope, useCluster } from './cluster.fixture.js';
import {
  artifact,
  artifactsOf,
  COMPLETED,
  INPUT_REQUIRED,
  inState,
  message,
  status,
  taskEvent,
} from './events.fixture.js';
import { type DatabaseFactory, withoutGuard } from './faults.fixture.js';
import { HOLD_HERE, holdEvents, holdTask, leaseRow, logOf, taskRow, untilBlocked } from './rows.fixture.js';

const at = (expectedVersion: number): AppendOptions => ({ expectedVersion, commitId: randomUUID(), endsTurn: false });

describe('Optimistic lock of tasks', () => {
  const cluster = useCluster();

  /** Both have read version 1 and stand before the task's row lock together. */
  async function twoWritersAtOneVersion(database?: DatabaseFactory) {
    const writers = [await cluster.replica(database && { database }), await cluster.replica(database && { database })];
    const { scope, taskNo, taskId } = await writers[0]!.stored();
    const hold = await holdTask(cluster.db, taskNo);
    const writing = writers.map(({ tasks }, writer) =>
      tasks.append({ taskNo, taskId }, [artifact(scope, `of writer ${writer}`)], at(1)),
    );
    await untilBlocked(cluster.db, 2);
    await hold.release();
    const outcomes = await Promise.allSettled(writing);
    const winners = outcomes.flatMap(({ status: how }, writer) => (how === 'fulfilled' ? [writer] : []));
    const losses = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
    return { winners, losses, scope, taskNo, tasks: writers[0]!.tasks };
  }

  it('O1 two writers at one version: one wins, the other is told, the state of the winner stands', async () => {
    const { winners, losses, scope, taskNo, tasks } = await twoWritersAtOneVersion();
    expect(winners).toHaveLength(1);
    expect(losses).toEqual([new ConcurrentTaskModificationError(scope.taskId, 1)]);
    expect(losses[0]).toMatchObject({ code: 'A2A_CONCURRENT_TASK_MODIFICATION', expectedVersion: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', `artifact of writer ${winners[0]}`]);
    const stored = await tasks.find(scope);
    expect(stored?.version).toBe(2);
    expect(Object.keys(artifactsOf(stored?.task))).toEqual([`of writer ${winners[0]}`]);
  });

  it('O1 negative control: without the version in its WHERE, both writers win', async () => {
    const guard = withoutGuard(
      [/AND version = (\$\d+)\s/, 'AND $1::integer > 0 '],
      [/\$\d+ \+ n\.place([^]*?unnest\()(string_to_array\([^)]*\))/, 'u.version - cardinality($2) + n.place$1$2'],
    );
    const { winners } = await twoWritersAtOneVersion(guard.database);
    guard.expectGone();
    expect(winners).toEqual([0, 1]);
  });

  it('O1 of the SDK: two calls that have loaded the same task, the second save is refused', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.stored();
    const [first, second] = [callContextOf(scope), callContextOf(scope)];
    const loaded = await Promise.all([a.tasks.load(scope.taskId, first), b.tasks.load(scope.taskId, second)]);
    await a.tasks.save({ ...loaded[0]!, metadata: { by: 'a' } }, first);
    await expect(b.tasks.save({ ...loaded[1]!, metadata: { by: 'b' } }, second)).rejects.toThrow(
      ConcurrentTaskModificationError,
    );
    expect((await a.tasks.find(scope))?.task.metadata).toEqual({ by: 'a' });
    expect((await taskRow(cluster.db, taskNo)).version).toBe(2);
    // A retry in the same call reloads first.
    const again = await b.tasks.load(scope.taskId, second);
    await b.tasks.save({ ...again!, metadata: { seen: again!.metadata } }, second);
    expect((await a.tasks.find(scope))?.task.metadata).toEqual({ by: 'a', seen: { by: 'a' } });
  });

  it('O2 two inserts of one id: one conflict, and nothing of the loser', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const scope = newScope();
    const hold = await holdEvents(cluster.db);
    // The first has written its task and waits in the middle; the second waits for what becomes of the first.
    const first = a.stored(scope, { metadata: { by: 'a', note: HOLD_HERE } });
    await untilBlocked(cluster.db, 1);
    const second = b.stored(scope, { metadata: { by: 'b' } }).catch((error: unknown) => error);
    await untilBlocked(cluster.db, 2);
    await hold.release();
    const { taskNo } = await first;
    expect(await second).toEqual(new ConcurrentTaskModificationError(scope.taskId, 0));
    expect((await b.tasks.find(scope))?.task.metadata).toMatchObject({ by: 'a' });
    expect(await cluster.db.query('SELECT task_no FROM a2a_tasks')).toEqual([{ task_no: String(taskNo) }]);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
  });

  it('O2 two first commits of turns under one id: one lease, and the loser writes nothing any more', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo, generation } = await a.working();
    const late = await b.startTurn(scope, message());
    late.loop!.add(taskEvent(scope));
    await expect(late.flush()).rejects.toMatchObject({ code: 'A2A_LEASE_LOST' });
    expect(late.loop!.add(status(scope, COMPLETED))).toBe(false);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation, holder: a.holderId });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
  });

  it('O2 an insert that fell back leaves the id to the one that waited for it', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const scope = newScope();
    const hold = await holdEvents(cluster.db);
    const first = a.stored(scope, { metadata: { note: HOLD_HERE } }).catch(() => 'broken off');
    await untilBlocked(cluster.db, 1);
    const second = b.stored(scope);
    await untilBlocked(cluster.db, 2);
    await cluster.db.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'advisory'`,
    );
    expect(await first).toBe('broken off');
    expect(await logOf(cluster.db, (await second).taskNo)).toEqual(['task WORKING']);
    await hold.release();
  });

  it('O6 a turn that somebody saved beside goes on from what it then is: nothing of either is lost', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, turn, loop, taskNo } = await a.working();
    const call = callContextOf(scope);
    const loaded = await b.tasks.load(scope.taskId, call);
    await b.tasks.save({ ...loaded!, metadata: { saved: 'beside' } }, call);
    loop.add(artifact(scope, 'a1', 'one'));
    await turn.flush();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'taskMerge', 'artifact a1']);
    // The same once more, in the commit that writes a snapshot and takes the lease.
    const seen = await b.tasks.load(scope.taskId, call);
    await b.tasks.save({ ...seen!, metadata: { more: 1 } }, call);
    loop.add(artifact(scope, 'a1', ', two', true));
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    const stored = await b.tasks.find(scope);
    expect(stored?.task).toMatchObject({ metadata: { saved: 'beside', more: 1 }, status: { state: COMPLETED } });
    expect(artifactsOf(stored?.task)).toEqual({ a1: 'one, two' });
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ version: 6, stateVersion: 6, snapshotVersion: 6 });
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('O17 turns on A, B, A: the third starts from what the second left, not from what A remembers', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    const ownCall = callContextOf(scope);
    const stale = await a.tasks.load(scope.taskId, ownCall);
    const second = await b.followUp(scope, message('second'));
    second.loop!.add(artifact(scope, 'of b'));
    second.loop!.add(status(scope, INPUT_REQUIRED));
    await second.flush();
    const third = await a.followUp(scope, message('third'));
    expect(Object.keys(artifactsOf(third.admittedTask?.task))).toEqual(['of b']);
    third.loop!.add(artifact(scope, 'of a'));
    third.loop!.add(status(scope, COMPLETED));
    await third.flush();
    expect(await logOf(cluster.db, taskNo)).toEqual([
      'task WORKING',
      'status INPUT_REQUIRED',
      'userMessage second',
      'artifact of b',
      'status INPUT_REQUIRED',
      'userMessage third',
      'artifact of a',
      'status COMPLETED',
    ]);
    expect(Object.keys(artifactsOf((await b.tasks.find(scope))?.task))).toEqual(['of b', 'of a']);
    await expect(a.tasks.save({ ...stale!, ...inState(INPUT_REQUIRED) }, ownCall)).rejects.toThrow(
      ConcurrentTaskModificationError,
    );
  });
});
