import { randomUUID } from 'node:crypto';
import { ConcurrentTaskModificationError } from '../../libs/a2a-cluster/src/errors/concurrent-task-modification.error.js';
import { MessageRepeatedError } from '../../libs/a2a-cluster/src/errors/message-repeated.error.js';
import { encodeTask } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import type { MessageReceipt, TaskScope } from '../../libs/a2a-cluster/src/tasks/task-store.js';
import { newScope, type Replica, useCluster } from './cluster.fixture.js';
import { HOLD_HERE, holdEvents, leaseRow, logOf, untilBlocked } from './rows.fixture.js';
import { message, taskOf } from './events.fixture.js';
import { connectionReset, interceptable, withoutGuard } from './faults.fixture.js';

const WINDOW_MS = 300_000;

describe('A message that is sent twice', () => {
  const cluster = useCluster();

  const receiptOf = (messageId: string = randomUUID(), fingerprint = 'hash'): MessageReceipt => ({
    messageId,
    fingerprint,
    windowMs: WINDOW_MS,
  });

  /** The first commit of a turn on that message, under a task id of its own, as every run of it has. */
  function begin(replica: Replica, receipt: MessageReceipt, scope: TaskScope = newScope(), note = '') {
    const task = taskOf(scope, { metadata: { note } });
    const options = { contextId: task.contextId, commitId: randomUUID(), snapshot: encodeTask(task), receipt };
    return replica.tasks.create(scope, [{ kind: 'task', task }], { ...options, lease: replica.leaseRequest() });
  }

  const count = async (): Promise<{ tasks: number; leases: number; events: number; receipts: number }> => {
    const [row] = await cluster.db.query<{ tasks: number; leases: number; events: number; receipts: number }>(
      `SELECT (SELECT count(*) FROM a2a_tasks)::integer AS tasks,
              (SELECT count(*) FROM a2a_task_leases)::integer AS leases,
              (SELECT count(*) FROM a2a_task_events)::integer AS events,
              (SELECT count(*) FROM a2a_message_receipts)::integer AS receipts`,
    );
    return row!;
  };

  it('I7 two runs at once: one is accepted, the other finds its task and leaves nothing', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const receipt = receiptOf();
    const hold = await holdEvents(cluster.db);
    const first = begin(a, receipt, newScope(), HOLD_HERE);
    await untilBlocked(cluster.db, 1);
    const second = begin(b, receipt).catch((error: unknown) => error);
    await untilBlocked(cluster.db, 2);
    await hold.release();
    const { taskNo } = await first;
    expect(await second).toEqual(new MessageRepeatedError(taskNo));
    expect(await count()).toEqual({ tasks: 1, leases: 1, events: 1, receipts: 1 });
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: a.holderId });
  });

  it('I7 negative control: without the receipt in its first commit, both are accepted', async () => {
    const guard = withoutGuard([
      /INSERT INTO "a2a_message_receipts"[^]*? - (\$\d+)::double precision[^]*?RETURNING r\.task_no/,
      'SELECT a.task_no FROM a WHERE $1::double precision > 0',
    ]);
    const [a, b] = [
      await cluster.replica({ database: guard.database }),
      await cluster.replica({ database: guard.database }),
    ];
    const receipt = receiptOf();
    await Promise.all([begin(a, receipt), begin(b, receipt)]);
    guard.expectGone();
    expect(await count()).toMatchObject({ tasks: 2, leases: 2 });
  });

  it('I7 the first run falls back: the one that waited for it is accepted', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const receipt = receiptOf();
    const hold = await holdEvents(cluster.db);
    const first = begin(a, receipt, newScope(), HOLD_HERE).catch(() => 'broken off');
    await untilBlocked(cluster.db, 1);
    const second = begin(b, receipt);
    await untilBlocked(cluster.db, 2);
    await cluster.db.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'advisory'`,
    );
    expect(await first).toBe('broken off');
    expect(await logOf(cluster.db, (await second).taskNo)).toEqual(['task WORKING']);
    await hold.release();
    expect(await count()).toEqual({ tasks: 1, leases: 1, events: 1, receipts: 1 });
  });

  it('I7 a first commit whose answer was lost is found as its own, not as a repetition', async () => {
    const faults = interceptable();
    const a = await cluster.replica({ database: faults.database });
    const { scope } = { scope: newScope() };
    const [receipt, lease, task] = [receiptOf(), a.leaseRequest(), taskOf(scope)];
    const options = { contextId: 'c', commitId: randomUUID(), snapshot: encodeTask(task), receipt, lease };
    faults.get().intercept = async (_sql, run) => {
      await run();
      throw connectionReset();
    };
    await expect(a.tasks.create(scope, [{ kind: 'task', task }], options)).rejects.toThrow('ECONNRESET');
    faults.get().intercept = (_sql, run) => run();
    const found = await a.tasks.create(scope, [{ kind: 'task', task }], options);
    expect(await leaseRow(cluster.db, found.taskNo)).toMatchObject({ generation: found.generation });
    expect(await count()).toEqual({ tasks: 1, leases: 1, events: 1, receipts: 1 });
  });

  it('B13 a task id that another agent has is refused, and not tried without end', async () => {
    const [a, other] = [await cluster.replica(), await cluster.replica({ agent: 'other' })];
    const scope = newScope();
    await begin(a, receiptOf(), scope);
    await expect(begin(other, receiptOf(), scope)).rejects.toThrow(ConcurrentTaskModificationError);
    expect(await count()).toEqual({ tasks: 1, leases: 1, events: 1, receipts: 1 });
  });

  it('I7 another content, another caller, another agent: another message', async () => {
    const [a, other] = [await cluster.replica(), await cluster.replica({ agent: 'other' })];
    await begin(a, receiptOf('m'));
    await begin(a, receiptOf('m', 'other hash'));
    await begin(a, receiptOf('m'), newScope({ owner: 'alice' }));
    await begin(a, receiptOf('m'), newScope({ tenant: 'acme' }));
    await begin(other, receiptOf('m'));
    expect(await count()).toMatchObject({ tasks: 5, receipts: 5 });
    await expect(begin(a, receiptOf('m'))).rejects.toThrow(MessageRepeatedError);
  });

  it('I7 out of its window it is a new message, and the receipt is the new one’s', async () => {
    const a = await cluster.replica();
    const receipt = receiptOf();
    await begin(a, receipt);
    await cluster.db.query("UPDATE a2a_message_receipts SET created_at = clock_timestamp() - interval '6 minutes'");
    const { taskNo } = await begin(a, receipt);
    await expect(begin(a, receipt)).rejects.toEqual(new MessageRepeatedError(taskNo));
    expect(await count()).toMatchObject({ tasks: 2, receipts: 1 });
  });

  it('I7 a window that ends between the refusal and the look for the first one is over', async () => {
    const faults = interceptable();
    const a = await cluster.replica({ database: faults.database });
    const receipt = receiptOf();
    await begin(a, receipt);
    let expired = false;
    faults.get().intercept = async (_sql, run) => {
      const rows = await run();
      if (!expired) {
        expired = true;
        await cluster.db.query("UPDATE a2a_message_receipts SET created_at = clock_timestamp() - interval '6 minutes'");
      }
      return rows;
    };
    const { taskNo } = await begin(a, receipt);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
  });

  it('I7 the task it found was deleted: a new message', async () => {
    const a = await cluster.replica();
    const receipt = receiptOf();
    const first = await begin(a, receipt);
    await cluster.db.query('DELETE FROM a2a_tasks WHERE task_no = $1', [first.taskNo]);
    const second = await begin(a, receipt);
    expect(second.taskNo).not.toBe(first.taskNo);
    await expect(begin(a, receipt)).rejects.toEqual(new MessageRepeatedError(second.taskNo));
  });

  it('I7 a follow-up that is repeated finds its task, whatever has become of that, and stands once in the history', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    const receipt = receiptOf();
    const said = message('answer');
    const admit = (replica: Replica) => {
      const lease = replica.leaseRequest();
      return replica.tasks.admit(scope, said, lease, { turnId: lease.turnId, receipt });
    };
    const outcomes = await Promise.all([admit(a), admit(b)]);
    expect(outcomes.map(({ outcome }) => outcome).sort()).toEqual(['admitted', 'repeated']);
    expect(await admit(a)).toEqual({ outcome: 'repeated', taskNo });
    await cluster.db.query("UPDATE a2a_task_leases SET expires_at = clock_timestamp() - interval '1 second'");
    await b.sweeper.runOnce();
    expect(await admit(b)).toEqual({ outcome: 'repeated', taskNo });
    expect((await logOf(cluster.db, taskNo)).filter((event) => event === 'userMessage answer')).toHaveLength(1);
  });
});
