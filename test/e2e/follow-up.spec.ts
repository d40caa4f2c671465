import { randomUUID } from 'node:crypto';
import { type Task, TaskState } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { VersionedTaskStore } from 'nestjs-a2a-cluster/stores';
import { errorName, errorOf, getTask, send, sendForMessage, stream } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { type AgentApp, AgentAppFixture, type AgentBehaviour, TRANSPORTS } from './agent-app.fixture.js';
import { completed, inputRequired, publishStatus, taskOf, textOf, working } from './agent-events.js';

const fixture = new AgentAppFixture();

const asking: AgentBehaviour = {
  execute: (context, bus) => {
    if (textOf(context.userMessage) === 'end') completed(bus, context);
    else inputRequired(bus, context, 'which?');
  },
};

/** A lease that some replica left behind, on the task as it stands. */
async function leaveLease(
  taskId: string,
  lease: { expired: boolean; saidSomething: boolean; cancel?: boolean },
): Promise<void> {
  await fixture.database.query(
    `INSERT INTO a2a_task_leases (task_no, agent, kind, turn_id, admitted_version, holder, attempt, expires_at, context,
                                  cancel_requested_at)
     SELECT task_no, agent, 'message', $2, CASE WHEN $3 THEN state_version - 1 ELSE version END, 'dead-replica', 1,
            clock_timestamp() + $4::interval, '{"version":"1.0"}', CASE WHEN $5 THEN clock_timestamp() END
       FROM a2a_tasks WHERE task_id = $1`,
    [taskId, randomUUID(), lease.saidSomething, lease.expired ? '-1 second' : '1 hour', lease.cancel ?? false],
  );
}

const dropLease = (): Promise<unknown> => fixture.database.query('DELETE FROM a2a_task_leases');

/** A task in this state as somebody saved it through the SDK's TaskStore: no turn, no lease. */
async function savedTask(app: AgentApp, state: TaskState): Promise<Task> {
  const task = taskOf({ taskId: randomUUID(), contextId: randomUUID() }, state);
  await app.nest.get(VersionedTaskStore, { strict: false }).save(task, new ServerCallContext());
  return task;
}

const historyOf = async (taskId: string): Promise<string[]> => {
  const app = await fixture.start(asking);
  const task = await getTask(await app.client(), taskId);
  return task.history.map(textOf);
};

describe.each(TRANSPORTS)('A follow-up, over %s', (transport) => {
  test('terminal: UnsupportedOperationError, and nothing changes', async () => {
    const [a, b] = await fixture.startTwo(asking);
    const { id: taskId } = await send(await a.client({ transport }), 'end');
    for (const app of [a, b]) {
      const client = await app.client({ transport });
      const error = await errorOf(send(client, 'more', { taskId }));
      expect([error.name, error.message]).toEqual(['UnsupportedOperationError', expect.stringContaining('COMPLETED')]);
      expect(await errorName(stream(client, 'more', { taskId }))).toBe('UnsupportedOperationError');
    }
    expect(await historyOf(taskId)).toEqual(['end']);
  });

  test('O17 waiting, no lease: admitted on any replica, A, B, A', async () => {
    const [a, b] = await fixture.startTwo(asking);
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    const { id: taskId } = await send(atA, 'one');
    expect(stateName(await send(atB, 'two', { taskId }))).toBe('INPUT_REQUIRED');
    const last = await send(atA, 'end', { taskId });
    expect(stateName(last)).toBe('COMPLETED');
    expect(last.history.map(textOf)).toEqual(['one', 'which?', 'two', 'which?', 'end']);
  });

  test('waiting, no lease, saved by others: a task in INPUT_REQUIRED from the SDK store takes a message', async () => {
    const app = await fixture.start(asking);
    const { id: taskId } = await savedTask(app, TaskState.TASK_STATE_INPUT_REQUIRED);
    expect(stateName(await send(await app.client({ transport }), 'end', { taskId }))).toBe('COMPLETED');
  });

  test.each(['blocking', 'streaming'])(
    'O19 waiting, held: a %s follow-up at B waits for the release at A',
    async (kind) => {
      const release = new Deferred();
      const [a, b] = await fixture.startTwo({
        execute: async (context, bus) => {
          if (context.task) return completed(bus, context);
          publishStatus(bus, context, TaskState.TASK_STATE_AUTH_REQUIRED);
          await release.promise;
        },
        cluster: { leases: { heartbeatIntervalMs: 5_000, ttlMs: 20_000 } },
      });
      const task = await send(await a.client({ transport }), 'one');
      expect(stateName(task)).toBe('AUTH_REQUIRED');
      const store = b.nest.get(VersionedTaskStore, { strict: false });
      const admit = store.admit.bind(store);
      const tried = new Deferred();
      store.admit = async (...args) => {
        const admission = await admit(...args);
        if (admission.outcome === 'busy') tried.resolve();
        return admission;
      };
      const atB = await b.client({ transport });
      const recording = kind === 'streaming' ? Recording.send(atB, 'two', { taskId: task.id }) : undefined;
      const followUp = recording?.finished() ?? send(atB, 'two', { taskId: task.id });
      await tried.promise;
      release.resolve();
      await followUp;
      const { history, status } = await getTask(atB, task.id);
      expect([stateName({ status }), history.map(textOf)]).toEqual(['COMPLETED', ['one', 'two']]);
    },
  );

  test('O19 waiting, held for longer than a heartbeat: UnsupportedOperationError, history unchanged', async () => {
    const app = await fixture.start(asking);
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'one');
    await leaveLease(taskId, { expired: false, saidSomething: true });
    expect(await errorName(send(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
    expect(await errorName(stream(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
    expect((await getTask(client, taskId)).history.map(textOf)).toEqual(['one', 'which?']);
    await dropLease();
  });

  test('O30 waiting, expired: the dead lease is dropped, then the message is admitted', async () => {
    const app = await fixture.start(asking);
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'one');
    await leaveLease(taskId, { expired: true, saidSomething: true });
    const task = await send(client, 'end', { taskId });
    expect(stateName(task)).toBe('COMPLETED');
    expect(task.history.map(textOf)).toEqual(['one', 'which?', 'end']);
  });

  test('running, held: UnsupportedOperationError on the holder and elsewhere, history unchanged', async () => {
    const release = new Deferred();
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        working(bus, context);
        await release.promise;
        completed(bus, context);
      },
    });
    const sender = Recording.send(await a.client({ transport }), 'one');
    const { id: taskId } = await sender.task();
    for (const app of [a, b]) {
      const client = await app.client({ transport });
      expect(await errorName(send(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
      expect(await errorName(stream(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
      expect(stateName(await getTask(client, taskId))).not.toBe('FAILED');
    }
    release.resolve();
    await sender.finished();
    expect(await historyOf(taskId)).toEqual(['one']);
  });

  test('O49 running, held, nothing said yet: an accepted message is not waiting, so a second is refused', async () => {
    const app = await fixture.start(asking);
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'one');
    await leaveLease(taskId, { expired: false, saidSomething: false });
    expect(await errorName(send(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
    await dropLease();
  });

  test('running, expired: recovered by policy, FAILED, and the message refused', async () => {
    const app = await fixture.start(asking);
    const client = await app.client({ transport });
    const { id: taskId } = await savedTask(app, TaskState.TASK_STATE_WORKING);
    await leaveLease(taskId, { expired: true, saidSomething: false });
    const error = await errorOf(send(client, 'two', { taskId }));
    expect([error.name, error.message]).toEqual(['UnsupportedOperationError', expect.stringContaining('FAILED')]);
    const task = await getTask(client, taskId);
    expect(stateName(task)).toBe('FAILED');
    expect(textOf(task.status?.message)).toContain('dead-replica');
  });

  test('O49 running, expired, nothing said yet: the accepted message is not lost, its turn is recovered', async () => {
    const app = await fixture.start(asking);
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'one');
    await leaveLease(taskId, { expired: true, saidSomething: false });
    expect(await errorName(send(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
    expect(stateName(await getTask(client, taskId))).toBe('FAILED');
  });

  test('O51 running, expired, cancel requested: recovered as CANCELED', async () => {
    const app = await fixture.start(asking);
    const client = await app.client({ transport });
    const { id: taskId } = await savedTask(app, TaskState.TASK_STATE_WORKING);
    await leaveLease(taskId, { expired: true, saidSomething: false, cancel: true });
    const error = await errorOf(send(client, 'two', { taskId }));
    expect([error.name, error.message]).toEqual(['UnsupportedOperationError', expect.stringContaining('CANCELED')]);
  });

  test('running, none: UnsupportedOperationError', async () => {
    const app = await fixture.start(asking);
    const client = await app.client({ transport });
    const { id: taskId } = await savedTask(app, TaskState.TASK_STATE_WORKING);
    expect(await errorName(send(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
    expect(stateName(await getTask(client, taskId))).toBe('WORKING');
  });

  test('leases: false, running: UnsupportedOperationError; waiting: admitted', async () => {
    const release = new Deferred();
    const app = await fixture.start({
      execute: async (context, bus) => {
        if (context.task) return completed(bus, context);
        working(bus, context);
        await release.promise;
        inputRequired(bus, context);
      },
      cluster: { leases: false, sweeper: undefined as never },
    });
    const client = await app.client({ transport });
    const sender = Recording.send(client, 'one');
    const { id: taskId } = await sender.task();
    expect(await errorName(send(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
    release.resolve();
    expect(summaryOf((await sender.finished()).at(-1)!)).toBe('status INPUT_REQUIRED');
    expect(stateName(await send(client, 'end', { taskId }))).toBe('COMPLETED');
  });

  test('O16 two messages for one waiting task at A and B at once: one turn, the other leaves no trace', async () => {
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        if (!context.task) return inputRequired(bus, context, 'which?');
        working(bus, context);
        await context.turn.flush();
        completed(bus, context, 'done');
      },
    });
    const clients = [await a.client({ transport }), await b.client({ transport })];
    const { id: taskId } = await send(clients[0]!, 'one');
    const outcomes = await Promise.allSettled(clients.map((client, at) => send(client, `two at ${at}`, { taskId })));
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const winner = outcomes.findIndex(({ status }) => status === 'fulfilled');
    await eventually(async () => stateName(await getTask(clients[0]!, taskId)) === 'COMPLETED');
    expect(await historyOf(taskId)).toEqual(['one', 'which?', `two at ${winner}`, 'done']);
  });

  test('a follow-up with the wrong contextId is malformed; with the right one, or none, it is admitted', async () => {
    const app = await fixture.start(asking);
    const client = await app.client({ transport });
    const { id: taskId, contextId } = await send(client, 'one', { contextId: 'my-context' });
    expect(contextId).toBe('my-context');
    const error = await errorOf(send(client, 'two', { taskId, contextId: 'another' }));
    expect([error.name, error.message]).toEqual(['RequestMalformedError', expect.stringContaining('contextId')]);
    expect(await errorName(stream(client, 'two', { taskId, contextId: 'another' }))).toBe('RequestMalformedError');
    await send(client, 'three', { taskId, contextId: 'my-context' });
    expect((await send(client, 'end', { taskId })).history.map(textOf)).toEqual([
      ...['one', 'which?', 'three', 'which?', 'end'],
    ]);
  });
});

test('a task of another agent on the same tables is not this one', async () => {
  const app = await fixture.start({ ...asking, cluster: { agentId: 'one' } });
  const other = await fixture.start({ ...asking, cluster: { agentId: 'two' } });
  const { id: taskId } = await send(await app.client(), 'one');
  const client = await other.client();
  expect(await errorName(sendForMessage(client, 'two', { taskId }))).toBe('TaskNotFoundError');
  expect(await errorName(getTask(client, taskId))).toBe('TaskNotFoundError');
});
