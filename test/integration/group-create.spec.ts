import { randomUUID } from 'node:crypto';
import { ConcurrentTaskModificationError } from '../../libs/a2a-cluster/src/errors/concurrent-task-modification.error.js';
import { MessageRepeatedError } from '../../libs/a2a-cluster/src/errors/message-repeated.error.js';
import { encodeTask } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import type { CreateOptions, MessageReceipt, TaskScope } from '../../libs/a2a-cluster/src/tasks/task-store.js';
import { newScope, useCluster } from './cluster.fixture.js';
import { artifact, taskOf } from './events.fixture.js';
import { connectionReset, type Guardless, withoutGuard } from './faults.fixture.js';
import { type GroupingReplica, groupingReplica, interceptGroups } from './group.fixture.js';
import { holdLock, leaseRow, logOf, untilBlocked } from './rows.fixture.js';

interface NewTask {
  scope: TaskScope;
  options: CreateOptions;
}

const receiptOf = (messageId: string = randomUUID()): MessageReceipt => ({
  messageId,
  fingerprint: 'hash',
  windowMs: 300_000,
});

function newTask(replica: GroupingReplica, given: Partial<CreateOptions> = {}, scope = newScope()): NewTask {
  const { contextId } = taskOf(scope);
  const made = { contextId, commitId: randomUUID(), snapshot: encodeTask(taskOf(scope)), receipt: receiptOf() };
  return { scope, options: { ...made, lease: replica.leaseRequest(), ...given } };
}

const create = ({ tasks }: GroupingReplica, { scope, options }: NewTask) =>
  tasks
    .create(scope, [{ kind: 'task', task: taskOf(scope) }, artifact(scope, 'a1')], options)
    .catch((error: unknown) => error as Error);

/** Behind two others which keep the replica busy: they go in one group. */
function createTogether(replica: GroupingReplica, tasks: readonly NewTask[]) {
  const others = [create(replica, newTask(replica)), create(replica, newTask(replica))];
  const made = tasks.map((task) => create(replica, task));
  return Promise.all([...others, ...made]).then((all) => all.slice(others.length));
}

describe('First commits of several turns in one statement', () => {
  const cluster = useCluster();

  const rowsIn = async (table: string): Promise<number> => {
    const [row] = await cluster.db.query<{ rows: number }>(`SELECT count(*)::integer AS rows FROM ${table}`);
    return row!.rows;
  };

  it('I2 each has its task, its events, its lease and its receipt; one that ends at once has no lease', async () => {
    const a = await groupingReplica(cluster);
    const tasks = [newTask(a), newTask(a), newTask(a)];
    const { lease: _none, ...ended } = newTask(a).options;
    const made = await createTogether(a, [...tasks, { scope: newScope(), options: ended }]);
    expect(a.groups()).toBe(1);
    for (const [at, result] of made.entries()) {
      const { taskNo, version, generation } = result as Exclude<typeof result, Error>;
      expect(version).toBe(2);
      expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1']);
      const lease = await leaseRow(cluster.db, taskNo);
      if (at === 3) expect([generation, lease]).toEqual([undefined, undefined]);
      else expect(lease).toMatchObject({ generation, holder: a.holderId, attempt: 1, admittedVersion: 0 });
      const { receipt } = tasks[at]?.options ?? ended;
      expect(await a.tasks.findRepeated(newScope(), receipt!)).toBe(taskNo);
    }
    expect(new Set(made.map((result) => (result as { taskNo: number }).taskNo)).size).toBe(4);
    const found = await a.tasks.find(tasks[1]!.scope);
    expect(found).toMatchObject({ version: 2, stateVersion: 1, scope: tasks[1]!.scope });
  });

  it('I7 of one message twice in a group, one is accepted and the other finds its task', async () => {
    const a = await groupingReplica(cluster);
    const receipt = receiptOf();
    const [other, first, second] = await createTogether(a, [
      newTask(a),
      newTask(a, { receipt }),
      newTask(a, { receipt }),
    ]);
    const { taskNo } = first as { taskNo: number };
    expect(second).toEqual(new MessageRepeatedError(taskNo));
    expect(other).toMatchObject({ version: 2 });
    expect(await rowsIn('a2a_tasks')).toBe(4); // with the two before the group
  });

  it('I7 O2 a message that was accepted before, or an id that is taken, keeps its own commit alone', async () => {
    const a = await groupingReplica(cluster);
    const before = newTask(a);
    const { taskNo } = (await create(a, before)) as { taskNo: number };
    const [repeated, taken, fresh] = await createTogether(a, [
      newTask(a, { receipt: before.options.receipt! }),
      newTask(a, {}, before.scope),
      newTask(a),
    ]);
    expect(repeated).toEqual(new MessageRepeatedError(taskNo));
    expect(taken).toEqual(new ConcurrentTaskModificationError(before.scope.taskId, 0));
    expect(fresh).toMatchObject({ version: 2 });
    for (const table of ['a2a_tasks', 'a2a_task_leases', 'a2a_message_receipts']) expect(await rowsIn(table)).toBe(4);
    expect(await rowsIn('a2a_task_events')).toBe(8);
  });

  it('I7 a receipt out of its window is the new task’s', async () => {
    const a = await groupingReplica(cluster);
    const before = newTask(a);
    await create(a, before);
    await cluster.db.query(`UPDATE a2a_message_receipts SET created_at = created_at - interval '1 hour'`);
    const receipt = before.options.receipt!;
    const [made] = await createTogether(a, [newTask(a, { receipt }), newTask(a)]);
    expect(await a.tasks.findRepeated(newScope(), receipt)).toBe((made as { taskNo: number }).taskNo);
    expect(a.groups()).toBe(1);
  });

  it.each([
    ['done', true],
    ['not done', false],
  ])('O53 a group whose answer was lost, %s: asked again, each finds its own task', async (_what, done) => {
    const a = await groupingReplica(cluster);
    const tasks = [newTask(a), newTask(a)];
    interceptGroups(a.database, async (_sql, run) => {
      if (done) await run();
      throw connectionReset();
    });
    expect(await createTogether(a, tasks)).toEqual([connectionReset(), connectionReset()]);
    const again = await Promise.all(tasks.map((task) => create(a, task)));
    for (const made of again) {
      const { taskNo, generation } = made as { taskNo: number; generation: number };
      expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation });
    }
    expect(await rowsIn('a2a_tasks')).toBe(4);
  });

  /** The same two messages reach two replicas in opposite orders, and both are stored in groups at the same time. */
  async function inOppositeOrders(guard?: Guardless) {
    const options = { guard, patient: true };
    const [a, b] = [await groupingReplica(cluster, options), await groupingReplica(cluster, options)];
    const failures: string[] = [];
    for (const { database } of [a, b]) {
      interceptGroups(database, (_sql, run) =>
        run().catch((error: Error) => {
          failures.push(error.message);
          throw error;
        }),
      );
    }
    const [one, two] = [receiptOf('one'), receiptOf('two')];
    // Stops A between the two: to B, the first of them is not there yet.
    await cluster.db.query(`
      CREATE OR REPLACE FUNCTION hold_second() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF NEW.message_id = 'two' AND EXISTS (SELECT FROM a2a_message_receipts WHERE message_id = 'one') THEN
          PERFORM pg_advisory_xact_lock_shared(471300);
        END IF;
        RETURN NEW;
      END $$;
      CREATE OR REPLACE TRIGGER hold_second BEFORE INSERT ON a2a_message_receipts
         FOR EACH ROW EXECUTE FUNCTION hold_second()`);
    const hold = await holdLock(cluster.db, 'SELECT pg_advisory_xact_lock(471300)');
    const first = createTogether(a, [newTask(a, { receipt: one }), newTask(a, { receipt: two })]);
    await untilBlocked(cluster.db, 1);
    const second = createTogether(b, [newTask(b, { receipt: two }), newTask(b, { receipt: one })]);
    await untilBlocked(cluster.db, 2);
    await hold.release();
    const results = [...(await first), ...(await second)];
    await cluster.db.query('DROP FUNCTION hold_second CASCADE');
    return { results, failures };
  }

  it('I7 two groups with the same messages in opposite orders: each message is accepted once', async () => {
    const { results, failures } = await inOppositeOrders();
    const [one, two, twoAgain, oneAgain] = results;
    expect(failures).toEqual([]);
    expect(oneAgain).toEqual(new MessageRepeatedError((one as { taskNo: number }).taskNo));
    expect(twoAgain).toEqual(new MessageRepeatedError((two as { taskNo: number }).taskNo));
  });

  it('I7 negative control: without an order of their own they are a deadlock', async () => {
    const guard = withoutGuard(['ORDER BY a.tenant, a.owner, a.message_id, a.fingerprint', '']);
    const { failures } = await inOppositeOrders(guard);
    guard.expectGone();
    expect(failures).toEqual([expect.stringContaining('deadlock detected')]);
  });

  /** Somebody has a message's receipt in a transaction of several statements when a group comes with it. */
  async function oneReceiptIsLocked(patient: boolean) {
    const a = await groupingReplica(cluster, { patient });
    const receipt = receiptOf();
    const hold = await holdLock(
      cluster.db,
      `INSERT INTO a2a_message_receipts (tenant, owner, agent, message_id, fingerprint, task_no)
       VALUES ('', 'unknown', 'default', $1, 'hash', 0)`,
      [receipt.messageId],
    );
    const others = [create(a, newTask(a)), create(a, newTask(a))];
    const [locked, ...rest] = [newTask(a, { receipt }), newTask(a), newTask(a)].map((task) => create(a, task));
    await Promise.all(others);
    await untilBlocked(cluster.db);
    return { locked: locked!, rest: Promise.all(rest), hold };
  }

  it('I6 a message whose receipt is locked waits alone', async () => {
    const { locked, rest, hold } = await oneReceiptIsLocked(false);
    expect(await rest).toEqual([expect.objectContaining({ version: 2 }), expect.objectContaining({ version: 2 })]);
    await untilBlocked(cluster.db);
    await hold.release('ROLLBACK');
    expect(await locked).toMatchObject({ version: 2 });
  });

  it('I6 negative control: a group that waits for a receipt keeps all of its turns waiting', async () => {
    const { locked, rest, hold } = await oneReceiptIsLocked(true);
    expect(await rowsIn('a2a_tasks')).toBe(2);
    await hold.release('ROLLBACK');
    expect([await locked, ...(await rest)].map((made) => (made as { version: number }).version)).toEqual([2, 2, 2]);
  });

  it('a task with a push receiver, and one without a receipt, go alone', async () => {
    const a = await groupingReplica(cluster);
    const push = { configId: 'p', config: '{}', wireVersion: '1.0' };
    const { receipt: _none, ...bare } = newTask(a).options;
    const made = await createTogether(a, [newTask(a, { push }), { scope: newScope(), options: bare }]);
    expect(made).toEqual([expect.objectContaining({ version: 2 }), expect.objectContaining({ version: 2 })]);
    expect(a.groups()).toBe(0);
    expect(await rowsIn('a2a_push_configs')).toBe(1);
  });
});
