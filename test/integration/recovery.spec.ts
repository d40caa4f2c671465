import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { RECOVERY_METADATA_KEY } from '../../libs/a2a-cluster/src/recovery/abandoned-turn.recovery.js';
import { newScope, useCluster } from './cluster.fixture.js';
import {
  artifact,
  AUTH_REQUIRED,
  COMPLETED,
  FAILED,
  INPUT_REQUIRED,
  inState,
  message,
  status,
} from './events.fixture.js';
import { textOf } from './events.fixture.js';
import { interceptable, Pause } from './faults.fixture.js';
import { expireLeases, leaseRow, logOf, taskRow } from './rows.fixture.js';

describe('Recovery of abandoned turns', () => {
  const cluster = useCluster();

  afterEach(() => jest.restoreAllMocks());

  /** B's sweep once every lease has run out. */
  const sweepExpired = async () => {
    await expireLeases(cluster.db);
    return (await cluster.replica()).sweeper.runOnce();
  };

  it('O24 execute() has returned with its last event still queued, the process dies: FAILED', async () => {
    const faults = interceptable();
    const dying = await cluster.replica({ database: faults.database });
    const { scope, loop, turn, taskNo } = await dying.working();
    const pause = new Pause(/INSERT INTO "a2a_task_events"/, 'before');
    faults.get().intercept = pause.intercept;
    loop.add(artifact(scope, 'result'));
    await pause.reached;
    loop.add(status(scope, COMPLETED));
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: dying.holderId });
    expect(await sweepExpired()).toMatchObject({ claimed: 1, failed: 1 });
    // It was only frozen after all: what was queued is refused.
    pause.resume();
    await expect(turn.flush()).rejects.toMatchObject({ code: 'A2A_LEASE_LOST' });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
  });

  it('B6 an agent that has said nothing yet, the process dies: the message is not lost, FAILED', async () => {
    const dying = await cluster.replica({ firstEventMs: 1 });
    const scope = newScope();
    const turn = await dying.startTurn(scope, message('hello'));
    expect(await turn.opened).toMatchObject({ kind: 'task' });
    const { taskNo } = turn.loop!.key!;
    expect(await logOf(cluster.db, taskNo)).toEqual(['task SUBMITTED']);
    expect(await sweepExpired()).toMatchObject({ claimed: 1, failed: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task SUBMITTED', 'status FAILED']);
    const { task } = (await dying.tasks.find(scope))!;
    expect(task.history.map(textOf)).toContain('hello');
  });

  it('O24 the status says what is known: last holder, last heartbeat, attempts', async () => {
    const [dead, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await dead.working();
    const [lease] = await cluster.db.query<{ at: Date }>('SELECT renewed_at AS at FROM a2a_task_leases');
    await expireLeases(cluster.db, taskNo);
    expect(await b.recovery.recoverTask(scope)).toBe(true);
    const { task } = (await b.tasks.find(scope))!;
    const lastHeartbeat = lease!.at.toISOString();
    expect(task.status).toMatchObject({
      state: FAILED,
      message: { metadata: { [RECOVERY_METADATA_KEY]: { lastHolder: dead.holderId, lastHeartbeat, attempts: 1 } } },
    });
    expect(textOf(task.status!.message!)).toContain(`${dead.holderId} sent its last heartbeat at ${lastHeartbeat}`);
    expect(await b.recovery.recoverTask(scope)).toBe(false);
  });

  it('O25 a resumed turn whose first save repeats the old INPUT_REQUIRED, then dies: lease there, FAILED', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    const asked = (await b.tasks.find(scope))!.task;
    const turn = await b.followUp(scope, message('answer'));
    // As executors do that publish the task they were given, with something of their own in it.
    turn.loop!.add({ kind: 'task', task: { ...asked, metadata: { resumed: true } } });
    await turn.flush();
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: b.holderId });
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'INPUT_REQUIRED', stateVersion: 2 });
    expect(await sweepExpired()).toMatchObject({ claimed: 1, failed: 1 });
    expect((await logOf(cluster.db, taskNo)).at(-1)).toBe('status FAILED');
  });

  it('O49 a follow-up is admitted and its replica dies before a word: FAILED, the message once in the history', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    const said = message('the accepted one');
    await b.followUp(scope, said);
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'INPUT_REQUIRED', version: 3, stateVersion: 2 });
    expect(await sweepExpired()).toMatchObject({ claimed: 1, failed: 1 });
    const { task } = (await a.tasks.find(scope))!;
    expect(task.history.filter(({ messageId }) => messageId === said.messageId)).toHaveLength(1);
    expect(await logOf(cluster.db, taskNo)).toEqual([
      'task WORKING',
      'status INPUT_REQUIRED',
      'userMessage the accepted one',
      'status FAILED',
    ]);
  });

  it('O50 an ask answered by an ask releases the lease though the state did not change', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    const turn = await b.followUp(scope, message('answer'));
    turn.loop!.add(status(scope, INPUT_REQUIRED));
    await turn.flush();
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'INPUT_REQUIRED', version: 4, stateVersion: 4 });
    expect(await sweepExpired()).toMatchObject({ claimed: 0 });
    expect((await a.followUp(scope, message('again'))).fencingToken).toBeDefined();
  });

  it('O27 tasks of tenants and owners are ended under their own scope', async () => {
    const [dead, b] = [await cluster.replica(), await cluster.replica()];
    const taskId = 'the same id for all';
    const scopes = [
      newScope({ taskId, tenant: '', owner: 'alice' }),
      newScope({ taskId, tenant: '', owner: 'bob' }),
      newScope({ taskId, tenant: 'acme', owner: 'alice' }),
    ];
    const running = await Promise.all(scopes.map((scope) => dead.working(scope)));
    await expireLeases(cluster.db, running[0]!.taskNo, running[2]!.taskNo);
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 2, failed: 2, errors: 0 });
    const states = await Promise.all(scopes.map(async (scope) => (await b.tasks.find(scope))?.task.status?.state));
    expect(states).toEqual([FAILED, running[1]!.loop.current!.status!.state, FAILED]);
    expect(await leaseRow(cluster.db, running[1]!.taskNo)).toMatchObject({ expired: false });
  });

  it('O27 a task that cannot be read is logged as an error, and the others are ended all the same', async () => {
    const [dead, b] = [await cluster.replica(), await cluster.replica()];
    const running = await Promise.all(Array.from({ length: 6 }, () => dead.working()));
    const broken = running[0]!;
    broken.loop.add(artifact(broken.scope, 'a1'));
    await broken.turn.flush();
    await cluster.db.query('DELETE FROM a2a_task_events WHERE task_no = $1 AND version = 2', [broken.taskNo]);
    await expireLeases(cluster.db);
    const logged = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 6, failed: 5, errors: 1 });
    expect(logged).toHaveBeenCalledTimes(1);
    expect(String(logged.mock.calls[0]![0])).toMatch(
      `Task ${broken.scope.taskId} was abandoned and could not be recovered: EventLogGapError`,
    );
    for (const { taskNo } of running.slice(1)) {
      expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
    }
    // Put back as it was, to be claimed by a later sweep, which says so again: it was not run, so no attempt is counted.
    expect(await leaseRow(cluster.db, broken.taskNo)).toMatchObject({ attempt: 1, holder: dead.holderId });
    expect(b.heartbeat.generations).toEqual([]);
  });

  it('O29 the sweeper dies between claim and write: another finishes it, and knows of both', async () => {
    const [dead, dying] = [await cluster.replica(), await cluster.replica()];
    const { taskNo, scope } = await dead.working();
    await expireLeases(cluster.db, taskNo);
    await dying.leases.claim({ holder: dying.holderId, ttlMs: 60_000, limit: 10 });
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: dying.holderId, attempt: 1, expired: false });
    expect(await (await cluster.replica()).sweeper.runOnce()).toMatchObject({ claimed: 0 });
    expect(await sweepExpired()).toMatchObject({ claimed: 1, failed: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
    expect((await dead.tasks.find(scope))?.task.status?.message?.metadata).toMatchObject({
      [RECOVERY_METADATA_KEY]: { lastHolder: dying.holderId, attempts: 1 },
    });
  });

  it('O30 lease expired, task terminal: the lease is dropped, the task untouched', async () => {
    const a = await cluster.replica();
    const { scope, taskNo } = await a.stored(newScope(), inState(COMPLETED));
    await cluster.db.query(
      `INSERT INTO a2a_task_leases (task_no, agent, kind, turn_id, admitted_version, holder, attempt, expires_at, context)
       VALUES ($1, 'default', 'message', gen_random_uuid(), 0, 'gone', 1, clock_timestamp(), '{}')`,
      [taskNo],
    );
    expect(await sweepExpired()).toMatchObject({ claimed: 1, dropped: 1 });
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'COMPLETED', version: 1 });
    expect((await a.tasks.find(scope))?.version).toBe(1);
  });

  it('O30 lease expired, task waiting because this turn said so: dropped, and a follow-up is admitted', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    loop.add(status(scope, AUTH_REQUIRED));
    await turn.flush();
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: a.holderId });
    expect(await sweepExpired()).toMatchObject({ claimed: 1, dropped: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status AUTH_REQUIRED']);
    expect((await (await cluster.replica()).followUp(scope)).fencingToken).toBeDefined();
  });

  it('O30 interrupted by the turn before, not by this one: not waiting, FAILED', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    loop.add(status(scope, AUTH_REQUIRED));
    await turn.flush();
    await sweepExpired();
    const next = await (await cluster.replica()).followUp(scope);
    next.loop!.add(artifact(scope, 'half'));
    await next.flush();
    expect(await sweepExpired()).toMatchObject({ claimed: 1, failed: 1 });
    expect((await logOf(cluster.db, taskNo)).at(-1)).toBe('status FAILED');
  });

  it('O30 the task of an expired lease was deleted: the lease goes too', async () => {
    const { taskNo } = await (await cluster.replica()).working();
    await cluster.db.query('DELETE FROM a2a_tasks WHERE task_no = $1', [taskNo]);
    expect(await sweepExpired()).toMatchObject({ claimed: 1, dropped: 1, errors: 0 });
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('O51 the cancel was requested, then the holder dies: CANCELED, never FAILED', async () => {
    const [holder, canceler] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await holder.working();
    const requested = await canceler.tasks.requestCancel(scope, canceler.leaseRequest('cancel'));
    expect(requested).toEqual({ outcome: 'requested', taskNo, version: 1 });
    expect(await sweepExpired()).toMatchObject({ claimed: 1, canceled: 1, failed: 0 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status CANCELED']);
  });

  it('O51 the flag outlives a sweeper that dies with it', async () => {
    const [holder, dying] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await holder.working();
    await dying.tasks.requestCancel(scope, dying.leaseRequest('cancel'));
    await expireLeases(cluster.db, taskNo);
    const [claimed] = await dying.leases.claim({ holder: dying.holderId, ttlMs: 60_000, limit: 1, scope });
    expect(claimed).toMatchObject({ cancelRequested: true, attempt: 2 });
    expect(await sweepExpired()).toMatchObject({ claimed: 1, canceled: 1 });
  });

  it('O51 a lease that had run out when the cancel came is flagged too, and recovered as CANCELED', async () => {
    const [dead, canceler] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await dead.working();
    await expireLeases(cluster.db, taskNo);
    const requested = await canceler.tasks.requestCancel(scope, canceler.leaseRequest('cancel'));
    expect(requested.outcome).toBe('abandoned');
    expect(await canceler.recovery.recoverTask(scope)).toBe(true);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status CANCELED']);
  });

  it('O51 the canceling replica dies in the cancel turn of a waiting task: CANCELED', async () => {
    const [a, canceler] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    const requested = await canceler.tasks.requestCancel(scope, canceler.leaseRequest('cancel'));
    expect(requested).toMatchObject({ outcome: 'admitted', stored: { version: 2 } });
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ kind: 'cancel', cancelRequested: true });
    expect(await sweepExpired()).toMatchObject({ claimed: 1, canceled: 1 });
    expect((await logOf(cluster.db, taskNo)).at(-1)).toBe('status CANCELED');
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('I6 a follow-up to a task whose replica died recovers it first, and is then answered by its state', async () => {
    const [dead, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await dead.working();
    await expireLeases(cluster.db, taskNo);
    await expect(b.followUp(scope, message('late'))).rejects.toThrow('has ended as TASK_STATE_FAILED');
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
    expect((await b.tasks.find(scope))?.task.history.map(textOf)).not.toContain('late');
  });

  it('I2 a turn whose first commit already ends it never writes a lease', async () => {
    const a = await cluster.replica();
    const scope = newScope();
    const turn = await a.startTurn(scope, message());
    turn.loop!.add(status(scope, COMPLETED)); // the task that it belongs to is made up, in the same commit
    await turn.flush();
    expect(turn.fencingToken).toBeUndefined();
    expect(await leaseRow(cluster.db, turn.loop!.key!.taskNo)).toBeUndefined();
    expect(await logOf(cluster.db, turn.loop!.key!.taskNo)).toEqual(['task SUBMITTED', 'status COMPLETED']);
  });
});
