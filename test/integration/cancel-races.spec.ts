import { canceled } from '../../libs/a2a-cluster/src/turns/status-events.js';
import { ConcurrentTaskModificationError } from '../../libs/a2a-cluster/src/errors/concurrent-task-modification.error.js';
import { Deferred } from '../../tools/harness/wait.js';
import { callContextOf, isLost, useCluster } from './cluster.fixture.js';
import {
  artifact,
  artifactsOf,
  CANCELED,
  INPUT_REQUIRED,
  inState,
  message,
  status,
  textPart,
} from './events.fixture.js';
import { interceptable, Pause, READ_TASK } from './faults.fixture.js';
import { expireLeases, HOLD_HERE, holdEvents, holdLock, leaseRow, logOf, untilBlocked } from './rows.fixture.js';

describe('Cancels that race writes', () => {
  const cluster = useCluster();

  const canceledEnd = (taskId: string) => () => canceled({ taskId, contextId: `context of ${taskId}` });

  it('O4 an artifact in flight when the cancel is forced: CANCELED, and the artifact is kept', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo } = await a.working();
    const hold = await holdEvents(cluster.db);
    loop.add(artifact(scope, 'result', HOLD_HERE));
    await untilBlocked(cluster.db, 1);
    const forcing = b.tasks.forceEnd(scope, canceledEnd(scope.taskId));
    await untilBlocked(cluster.db, 2);
    await hold.release();
    const { task, version } = await forcing;
    await turn.flush();
    expect(version).toBe(3);
    expect(task.status?.state).toBe(CANCELED);
    expect(artifactsOf(task)).toEqual({ result: HOLD_HERE });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact result', 'status CANCELED']);
    expect(artifactsOf((await a.tasks.find(scope))?.task)).toEqual({ result: HOLD_HERE });
  });

  it("O4 an artifact saved between a cancel's load and its save: refused, loaded again, both are kept", async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo } = await a.working();
    const call = callContextOf(scope);
    const loaded = await b.tasks.load(scope.taskId, call);
    loop.add(artifact(scope, 'result'));
    await turn.flush();
    const save = b.tasks.save({ ...loaded!, ...inState(CANCELED) }, call);
    await expect(save).rejects.toThrow(ConcurrentTaskModificationError);
    const again = await b.tasks.load(scope.taskId, call);
    await b.tasks.save({ ...again!, ...inState(CANCELED) }, call);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact result', 'status CANCELED']);
    expect(Object.keys(artifactsOf((await a.tasks.find(scope))?.task))).toEqual(['result']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('O4 an artifact saved between the read and the write of a recovery that cancels: kept', async () => {
    const faults = interceptable();
    const [a, b] = [await cluster.replica(), await cluster.replica({ database: faults.database })];
    const { scope, taskNo } = await a.working();
    await b.tasks.requestCancel(scope, b.leaseRequest('cancel'));
    await expireLeases(cluster.db, taskNo);
    const pause = new Pause(READ_TASK, 'after');
    faults.get().intercept = pause.intercept;
    const sweeping = b.sweeper.runOnce();
    await pause.reached;
    const call = callContextOf(scope);
    const loaded = await a.tasks.load(scope.taskId, call);
    const result = { artifactId: 'result', name: '', description: '', parts: [textPart('found')] };
    await a.tasks.save({ ...loaded!, artifacts: [{ ...result, metadata: undefined, extensions: [] }] }, call);
    pause.resume();
    expect(await sweeping).toMatchObject({ claimed: 1, canceled: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact result', 'status CANCELED']);
    expect(Object.keys(artifactsOf((await a.tasks.find(scope))?.task))).toEqual(['result']);
  });

  it('O54 a cancel is forced while the holder commits without pause: CANCELED, nothing after it', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo } = await a.working();
    const underWay = new Deferred();
    const streaming = (async () => {
      for (let chunk = 0; ; chunk += 1) {
        if (chunk === 5) underWay.resolve();
        if (!loop.add(artifact(scope, 'stream', `${chunk} `, chunk > 0))) return chunk;
        await turn.flush().catch(() => undefined);
      }
    })();
    await underWay.promise;
    const { version } = await b.tasks.forceEnd(scope, canceledEnd(scope.taskId));
    const chunks = await streaming;
    expect(isLost(await turn.flush().catch((error: unknown) => error))).toBe(true);
    const log = await logOf(cluster.db, taskNo);
    expect(log).toHaveLength(version);
    expect(log.indexOf('status CANCELED')).toBe(version - 1);
    expect(version - 2).toBeLessThanOrEqual(chunks);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('O55 a forced end waits for a claim and takes the claimed lease away with it', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.working();
    await expireLeases(cluster.db, taskNo);
    const claim = 'UPDATE a2a_task_leases SET generation = DEFAULT WHERE task_no = $1';
    const claiming = await holdLock(cluster.db, claim, [taskNo]);
    const forcing = b.tasks.forceEnd(scope, canceledEnd(scope.taskId));
    await untilBlocked(cluster.db);
    await claiming.release();
    expect((await forcing).task.status?.state).toBe(CANCELED);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('O42 O44 waiting, canceled elsewhere, a second cancel and a follow-up here', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    const first = await b.tasks.requestCancel(scope, b.leaseRequest('cancel'));
    expect(first.outcome).toBe('admitted');
    // The cancel turn runs: another cancel is told to wait for it, and a follow-up that it is too late.
    expect(await a.tasks.requestCancel(scope, a.leaseRequest('cancel'))).toMatchObject({ outcome: 'requested' });
    await expect(a.followUp(scope, message('late'))).rejects.toMatchObject({ name: 'UnsupportedOperationError' });
    expect((await b.tasks.forceEnd(scope, canceledEnd(scope.taskId))).task.status?.state).toBe(CANCELED);
    expect((await a.tasks.forceEnd(scope, canceledEnd(scope.taskId))).version).toBe(3);
    expect(await a.tasks.requestCancel(scope, a.leaseRequest('cancel'))).toMatchObject({ outcome: 'terminal' });
    await expect(a.followUp(scope, message('late'))).rejects.toMatchObject({ name: 'UnsupportedOperationError' });
    expect((await logOf(cluster.db, taskNo)).slice(1)).toEqual(['status INPUT_REQUIRED', 'status CANCELED']);
  });

  it("O43 a cancel of somebody else's task is of one that is not there", async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.working();
    for (const foreign of [{ owner: 'mallory' }, { tenant: 'other' }, { taskId: 'unknown' }]) {
      const answer = await b.tasks.requestCancel({ ...scope, ...foreign }, b.leaseRequest('cancel'));
      expect(answer).toEqual({ outcome: 'unknown' });
    }
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ cancelRequested: false });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
  });

  it('O41 while it is being canceled an INPUT_REQUIRED does not end the turn; the terminal status does', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    loop.cancel();
    loop.add(status(scope, INPUT_REQUIRED));
    await turn.flush();
    expect(await leaseRow(cluster.db, taskNo)).toBeDefined();
    loop.add(status(scope, CANCELED));
    await turn.flush();
    expect((await logOf(cluster.db, taskNo)).slice(1)).toEqual(['status INPUT_REQUIRED', 'status CANCELED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });
});
