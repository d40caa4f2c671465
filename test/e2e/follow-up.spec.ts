import { randomUUID } from 'node:crypto';
import { TaskState } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { VersionedTaskStore } from 'nestjs-a2a-cluster/stores';
import { errorName, errorOf, getTask, send, stream } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Deferred } from '../../tools/harness/wait.js';
import {
  agentWhoseReplicaDies,
  DEAD,
  historyOf,
  RecoveryFixture,
  reExecuting,
  statusText,
} from './abandoned-turns.fixture.js';
import { type AgentBehaviour, TRANSPORTS, WITHOUT_LEASES } from './agent-app.fixture.js';
import { completed, inputRequired, publishStatus, taskOf, working } from './agent-events.js';
import { askingAgent } from './agents.js';

const fixture = new RecoveryFixture();

/** Wants authentication, and comes back when it is let: until then its task waits under a lease. */
function heldWaiting(): { release: Deferred; agent: AgentBehaviour } {
  const release = new Deferred();
  const agent: AgentBehaviour = {
    execute: async (context, bus) => {
      if (context.task) return completed(bus, context);
      publishStatus(bus, context, TaskState.TASK_STATE_AUTH_REQUIRED);
      await release.promise;
    },
  };
  return { release, agent };
}

// Each state of task and lease: integration/admission and integration/recovery.
describe.each(TRANSPORTS)('A follow-up, over %s', (transport) => {
  test('waiting, no lease, saved by others: a task in INPUT_REQUIRED from the SDK store takes a message', async () => {
    const app = await fixture.start(askingAgent);
    const task = taskOf({ taskId: randomUUID(), contextId: randomUUID() }, TaskState.TASK_STATE_INPUT_REQUIRED);
    await app.nest.get(VersionedTaskStore, { strict: false }).save(task, new ServerCallContext());
    expect(stateName(await send(await app.client({ transport }), 'end', { taskId: task.id }))).toBe('COMPLETED');
  });

  test.each(['blocking', 'streaming'])(
    'O19 waiting, held: a %s follow-up at B waits for the release at A',
    async (kind) => {
      const { release, agent } = heldWaiting();
      const cluster = { leases: { heartbeatIntervalMs: 5_000, ttlMs: 20_000 } };
      const [a, b] = await fixture.startTwo({ ...agent, cluster });
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
      const stored = await getTask(atB, task.id);
      expect([stateName(stored), historyOf(stored)]).toEqual(['COMPLETED', ['one', 'two']]);
    },
  );

  test('O19 waiting, held for longer than a heartbeat: UnsupportedOperationError, history unchanged', async () => {
    const { release, agent } = heldWaiting();
    const app = await fixture.start(agent);
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'one');
    expect(await errorName(send(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
    expect(await errorName(stream(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
    expect(historyOf(await getTask(client, taskId))).toEqual(['one']);
    release.resolve();
  });

  test('running, expired: recovered by policy, FAILED, and the message refused', async () => {
    const { b, id } = await fixture.abandoned(agentWhoseReplicaDies(), { cluster: reExecuting({ policy: 'fail' }) });
    const client = await b.client({ transport });
    const error = await errorOf(send(client, 'more', { taskId: id }));
    expect([error.name, error.message]).toEqual(['UnsupportedOperationError', expect.stringContaining('FAILED')]);
    const task = await getTask(client, id);
    expect([stateName(task), statusText(task)]).toEqual(['FAILED', expect.stringContaining(DEAD)]);
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
      cluster: WITHOUT_LEASES,
    });
    const client = await app.client({ transport });
    const sender = Recording.send(client, 'one');
    const { id: taskId } = await sender.task();
    expect(await errorName(send(client, 'two', { taskId }))).toBe('UnsupportedOperationError');
    release.resolve();
    expect(summaryOf((await sender.finished()).at(-1)!)).toBe('status INPUT_REQUIRED');
    expect(stateName(await send(client, 'end', { taskId }))).toBe('COMPLETED');
  });
});
