import { randomUUID } from 'node:crypto';
import { newScope, useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, message, status, taskEvent } from './events.fixture.js';
import { leaseRow, logOf, REFUSED, refuseEvents, taskRow } from './rows.fixture.js';

describe('A commit is one statement', () => {
  const cluster = useCluster();

  beforeAll(() => refuseEvents(cluster.db));

  it('O3 a new task whose event fails leaves neither task nor event nor lease', async () => {
    const { tasks, leaseRequest } = await cluster.replica();
    const scope = newScope();
    const events = [taskEvent(scope), artifact(scope, 'a1', REFUSED)];
    const options = { contextId: 'c', commitId: randomUUID(), snapshot: '{}', lease: leaseRequest() };
    await expect(tasks.create(scope, events, options)).rejects.toThrow('refused by the test');
    const rows = await cluster.db.query(
      'SELECT task_no FROM a2a_tasks UNION ALL SELECT task_no FROM a2a_task_events ' +
        'UNION ALL SELECT task_no FROM a2a_task_leases',
    );
    expect(rows).toEqual([]);
  });

  it('O3 a later commit of which one event fails changes neither version nor state nor log', async () => {
    const { tasks, working } = await cluster.replica();
    const { scope, taskNo, generation } = await working();
    const before = await taskRow(cluster.db, taskNo);
    const events = [artifact(scope, 'a1'), status(scope, COMPLETED, REFUSED)];
    const options = { expectedVersion: 1, generation, commitId: randomUUID(), endsTurn: false, snapshot: '{}' };
    await expect(tasks.append({ taskNo, taskId: scope.taskId }, events, options)).rejects.toThrow(
      'refused by the test',
    );
    expect(await taskRow(cluster.db, taskNo)).toEqual(before);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
  });

  it('O3 an ending commit that fails keeps the lease: the task is found and ended', async () => {
    const { tasks, working } = await cluster.replica();
    const { scope, taskNo, generation } = await working();
    const options = { expectedVersion: 1, generation, commitId: randomUUID(), endsTurn: true };
    const append = tasks.append({ taskNo, taskId: scope.taskId }, [status(scope, COMPLETED, REFUSED)], options);
    await expect(append).rejects.toThrow('refused by the test');
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'WORKING', version: 1 });
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation });
  });

  it('O3 an admission whose message fails leaves no lease and no trace in the history', async () => {
    const a = await cluster.replica();
    const { scope, taskNo } = await a.waiting();
    const before = await taskRow(cluster.db, taskNo);
    await expect(a.admit(scope, message(REFUSED))).rejects.toThrow('refused by the test');
    expect(await taskRow(cluster.db, taskNo)).toEqual(before);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    expect((await a.tasks.find(scope))?.task.history).toHaveLength(1);
  });

  it('O3 an admission whose lease fails leaves no message in the history', async () => {
    const a = await cluster.replica();
    const { scope, taskNo } = await a.waiting();
    const admit = a.admit(scope, message('lost'), { ...a.leaseRequest(), kind: null as never });
    await expect(admit).rejects.toThrow('null value in column "kind"');
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status INPUT_REQUIRED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('O3 a turn whose event the database refuses for good is given up, and its task is recovered', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, turn, loop, taskNo } = await a.working();
    loop.add(artifact(scope, 'a1', REFUSED));
    await expect(turn.flush()).rejects.toMatchObject({ code: 'A2A_LEASE_LOST' });
    expect(loop.add(status(scope, COMPLETED))).toBe(false);
    turn.lease?.drop();
    await cluster.db.query("UPDATE a2a_task_leases SET expires_at = clock_timestamp() - interval '1 second'");
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 1, failed: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
  });
});
