import { randomUUID } from 'node:crypto';
import { type TaskState } from '@a2a-js/sdk';
import { canceled } from '../../libs/a2a-cluster/src/turns/status-events.js';
import { callContextOf, isLost, useCluster } from './cluster.fixture.js';
import { COMPLETED, FAILED, inState, nameOf, status, taskOf, WORKING } from './events.fixture.js';
import { type DatabaseFactory, withoutGuard, withoutGuards } from './faults.fixture.js';
import { holdTask, leaseRow, logOf, taskRow, untilBlocked } from './rows.fixture.js';

describe('The first terminal state wins', () => {
  const cluster = useCluster();

  /** A task that has COMPLETED, and what of it must not change any more. */
  async function completed() {
    const replica = await cluster.replica();
    const running = await replica.working();
    running.loop.add(status(running.scope, COMPLETED));
    await running.turn.flush();
    const unchanged = async (): Promise<void> => {
      const row = { state: 'COMPLETED', version: 2, stateVersion: 2, snapshotVersion: 2 };
      expect(await taskRow(cluster.db, running.taskNo)).toEqual(row);
      expect(await logOf(cluster.db, running.taskNo)).toEqual(['task WORKING', 'status COMPLETED']);
      expect((await replica.tasks.find(running.scope))?.task.status?.state).toBe(COMPLETED);
    };
    return { replica, ...running, unchanged };
  }

  const late = [WORKING, COMPLETED, FAILED].map((state): [string, TaskState] => [nameOf(state), state]);

  it.each(late)('O5 a status %s after the end of the turn is not taken by the commit loop', async (_name, state) => {
    const { scope, loop, turn, unchanged } = await completed();
    expect(loop.add(status(scope, state))).toBe(false);
    expect(loop.add({ kind: 'task', task: taskOf(scope, inState(state)) })).toBe(false);
    await turn.flush();
    await unchanged();
  });

  it('O5 what is published in the same breath after the terminal status is not stored', async () => {
    const { working } = await cluster.replica();
    const { scope, loop, turn, taskNo } = await working();
    loop.add(status(scope, COMPLETED));
    expect(loop.add(status(scope, WORKING))).toBe(false);
    await turn.flush();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status COMPLETED']);
  });

  it.each(late)(
    'O5 I4 a status %s appended under the version of the terminal task is refused',
    async (_name, state) => {
      const { replica, scope, taskNo, unchanged } = await completed();
      const append = replica.tasks.append({ taskNo, taskId: scope.taskId }, [status(scope, state)], {
        expectedVersion: 2,
        commitId: randomUUID(),
        endsTurn: false,
      });
      const refusal = await append.then(
        () => undefined,
        (error: unknown) => error,
      );
      await unchanged();
      expect(isLost(refusal)).toBe(true);
    },
  );

  it.each(late)(
    'O5 I4 a Task %s saved through the SDK after it was loaded terminal changes nothing',
    async (_name, state) => {
      const { replica, scope, unchanged } = await completed();
      const call = callContextOf(scope);
      const loaded = await replica.tasks.load(scope.taskId, call);
      const saved = { ...loaded!, ...inState(state), metadata: { late: true } };
      await replica.tasks.save(saved, call).catch(() => undefined);
      await unchanged();
    },
  );

  it('O5 negative control: an append without the terminal states in its WHERE writes after the end', async () => {
    const guard = withoutGuard([/AND state NOT IN \([^)]*\)/, '']);
    const { scope, taskNo } = await completed();
    const { tasks } = await cluster.replica({ database: guard.database });
    await tasks.append({ taskNo, taskId: scope.taskId }, [status(scope, WORKING)], {
      expectedVersion: 2,
      commitId: randomUUID(),
      endsTurn: false,
    });
    guard.expectGone();
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'WORKING', version: 3 });
  });

  it('O5 I4 a lease cannot outlive the end: an append under it is refused, and so is its holder', async () => {
    const { working, tasks } = await cluster.replica();
    const { scope, loop, turn, taskNo, generation } = await working();
    await tasks.forceEnd(scope, () => canceled({ taskId: scope.taskId, contextId: 'c' }));
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    loop.add(status(scope, COMPLETED));
    await expect(turn.flush()).rejects.toMatchObject({ code: 'A2A_LEASE_LOST' });
    const append = tasks.append({ taskNo, taskId: scope.taskId }, [status(scope, COMPLETED)], {
      expectedVersion: 2,
      generation,
      commitId: randomUUID(),
      endsTurn: true,
    });
    await expect(append).rejects.toThrow('the task has ended as TASK_STATE_CANCELED');
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status CANCELED']);
  });

  it('O5 a follow-up, a cancel and a forced end of a terminal task change nothing', async () => {
    const { replica, scope, taskNo, unchanged } = await completed();
    const { tasks, leaseRequest } = replica;
    expect(await replica.admit(scope)).toEqual({ outcome: 'terminal', state: COMPLETED });
    expect(await tasks.requestCancel(scope, leaseRequest('cancel'))).toMatchObject({ outcome: 'terminal' });
    const forced = await tasks.forceEnd(scope, () => canceled({ taskId: scope.taskId, contextId: 'c' }));
    expect(forced.task.status?.state).toBe(COMPLETED);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    await unchanged();
  });

  /** The holder's COMPLETED and somebody's forced CANCELED stand before the task's row lock together. */
  async function completionAndForcedCancel(first: 'completion' | 'cancel', database?: DatabaseFactory) {
    const [holder, other] = [
      await cluster.replica(database && { database }),
      await cluster.replica(database && { database }),
    ];
    const { scope, loop, turn, taskNo } = await holder.working();
    const hold = await holdTask(cluster.db, taskNo);
    const complete = (): void => void loop.add(status(scope, COMPLETED));
    const cancel = () => other.tasks.forceEnd(scope, () => canceled({ taskId: scope.taskId, contextId: 'c' }));
    if (first === 'completion') complete();
    else void cancel().catch(() => undefined);
    await untilBlocked(cluster.db, 1);
    const canceling = first === 'completion' ? cancel() : undefined;
    if (first === 'cancel') complete();
    await untilBlocked(cluster.db, 2);
    await hold.release();
    const flushed = await turn.flush().catch((error: unknown) => error);
    const forced = await canceling;
    return { taskNo, flushed, forced };
  }

  it('I4 completion before a forced cancel: COMPLETED, and the cancel is told so', async () => {
    const { taskNo, flushed, forced } = await completionAndForcedCancel('completion');
    expect(flushed).toBeUndefined();
    expect(nameOf(forced?.task.status?.state)).toBe('COMPLETED');
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status COMPLETED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('I4 a forced cancel before the completion: CANCELED, and the turn is told so', async () => {
    const { taskNo, flushed } = await completionAndForcedCancel('cancel');
    expect(isLost(flushed)).toBe(true);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status CANCELED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('I4 negative control: a forced end that does not see the terminal state writes a second one', async () => {
    const guard = withoutGuards(
      [[/t\.state,(?=[\s\S]*LEFT JOIN l)/, `'TASK_STATE_WORKING' AS state,`]],
      [[/AND state NOT IN \([^)]*\)/, '']],
    );
    const { taskNo } = await completionAndForcedCancel('completion', guard.database);
    guard.expectGone();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status COMPLETED', 'status CANCELED']);
  });
});
