import { TaskState } from '@a2a-js/sdk';
import { LeaseLostError, type Turn, TurnAbortedError } from 'nestjs-a2a-cluster';
import { LeaseStore, VersionedTaskStore } from 'nestjs-a2a-cluster/stores';
import { Poller } from '../../libs/a2a-cluster/src/streams/poller.js';
import { InMemoryLeaseStore } from '../../libs/a2a-cluster/src/testing/index.js';
import { cancel, errorName, errorOf, getTask, send } from '../../tools/harness/client.js';
import { Recording, type RecordingEnd, summaryOf } from '../helpers/recording.js';
import { Deferred, eventually, within } from '../../tools/harness/wait.js';
import {
  AgentAppFixture,
  type AgentAppOptions,
  ALL_TRANSPORTS,
  type ClusterOptions,
  WITHOUT_LEASES,
} from './agent-app.fixture.js';
import { artifactOf, publishArtifact, publishStatus, textPart, working } from './agent-events.js';
import { LeaseWatch } from '../../libs/a2a-cluster/src/turns/lease-watch.js';
import { statusEvent } from '../../libs/a2a-cluster/src/turns/status-events.js';
import { backUp } from '../integration/lost-rows.fixture.js';
import { withGrpc } from './grpc.fixture.js';

const fixture = new AgentAppFixture();

/** Heartbeats that come too late for any of these tests: what is noticed is noticed by the poll. */
const LEASES = { heartbeatIntervalMs: 60_000, ttlMs: 200_000 };

/** Says WORKING, then nothing more, and does not listen to its signal. */
function silentAgent(cluster: ClusterOptions = { leases: LEASES }) {
  const started = new Deferred<Turn>();
  const aborted = new Deferred<unknown>();
  const over = new Deferred();
  const options: AgentAppOptions = {
    execute: async (context, bus) => {
      const { turn } = context;
      turn.signal.addEventListener('abort', () => aborted.resolve(turn.signal.reason));
      working(bus, context);
      await turn.flush();
      started.resolve(turn);
      await over.promise;
    },
    cluster,
  };
  return { options, started, aborted, over };
}

const deleteRows = async (taskId: string, ...tables: string[]): Promise<void> => {
  const [task] = await fixture.database.query<{ no: string }>(
    'SELECT task_no AS no FROM a2a_tasks WHERE task_id = $1',
    [taskId],
  );
  for (const table of tables) await fixture.database.query(`DELETE FROM ${table} WHERE task_no = $1`, [task!.no]);
};

const deleteTask = (taskId: string): Promise<void> => deleteRows(taskId, 'a2a_task_events', 'a2a_tasks');

/** A lease without a task is dropped once it has run out. */
const dropLeases = (): Promise<unknown> => fixture.database.query('DELETE FROM a2a_task_leases');

async function expectAborted(aborted: Deferred<unknown>): Promise<void> {
  const reason = await within(aborted.promise, 5_000, 'the executor is told');
  expect(reason).toBeInstanceOf(LeaseLostError);
  expect((reason as TurnAbortedError).code).toBe('A2A_LEASE_LOST');
}

const nameOf = async (end: Promise<RecordingEnd>): Promise<string> =>
  errorName(
    within(end, 5_000, 'the stream ends').then((it) => {
      if (it.how === 'failed') throw it.error;
      return it;
    }),
  );

describe.each(ALL_TRANSPORTS)('A task that is deleted under a silent executor, over %s', (transport) => {
  const served = (options: AgentAppOptions): AgentAppOptions => (transport === 'GRPC' ? withGrpc(options) : options);

  test('I6 a blocking send, its stream and subscribers end with TaskNotFoundError, and the executor is told', async () => {
    for (const which of ['blocking', 'streaming'] as const) {
      const { options, started, aborted, over } = silentAgent();
      const [a, b] = await fixture.startTwo(served(options));
      const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
      const sender = which === 'streaming' ? Recording.send(atA, 'hello') : undefined;
      const sending = sender ? undefined : errorName(send(atA, 'hello'));
      const { taskId } = await started.promise;
      const subscribers = [Recording.subscribe(atA, taskId), Recording.subscribe(atB, taskId)];
      for (const subscriber of subscribers) await subscriber.task();
      await sender?.waitFor((_response, at) => at === 1);
      await deleteTask(taskId);
      for (const { ended } of subscribers) expect(await nameOf(ended)).toBe('TaskNotFoundError');
      if (sender) expect(await nameOf(sender.ended)).toBe('TaskNotFoundError');
      else expect(await within(sending!, 5_000, 'the send ends')).toBe('TaskNotFoundError');
      await expectAborted(aborted);
      expect(await errorName(getTask(atB, taskId))).toBe('TaskNotFoundError');
      await dropLeases();
      over.resolve();
    }
  });

  test('I6 a cancel that waits for it ends with TaskNotFoundError', async () => {
    const { options, started, over } = silentAgent({ leases: LEASES, turns: { cancelTimeoutMs: 60_000 } });
    const [a, b] = await fixture.startTwo(served(options));
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    const sender = Recording.send(atA, 'hello');
    const { taskId } = await started.promise;
    const canceling = errorName(cancel(atB, taskId));
    await eventually(async () => {
      const [lease] = await fixture.database.query<{ flagged: boolean }>(
        'SELECT cancel_requested_at IS NOT NULL AS flagged FROM a2a_task_leases',
      );
      return lease?.flagged;
    });
    await deleteTask(taskId);
    expect(await within(canceling, 5_000, 'the cancel ends')).toBe('TaskNotFoundError');
    expect(await nameOf(sender.ended)).toBe('TaskNotFoundError');
    await dropLeases();
    over.resolve();
  });
});

describe('What vanishes under a silent executor', () => {
  test('I6 without leases: a task that is deleted ends the turn, and none is read whole to find that out', async () => {
    const { options, started, aborted, over } = silentAgent(WITHOUT_LEASES);
    const app = await fixture.start(options);
    const sending = errorName(send(await app.client(), 'hello'));
    const { taskId } = await started.promise;
    await fixture.database.query("UPDATE a2a_tasks SET snapshot = 'not to be read', snapshot_version = version");
    await app.nest.get(Poller, { strict: false }).runOnce();
    expect(fixture.logger.warnings.filter((warning) => warning.includes('poll failed'))).toEqual([]);
    await deleteTask(taskId);
    await expectAborted(aborted);
    expect(await within(sending, 5_000, 'the send ends')).toBe('TaskNotFoundError');
    over.resolve();
  });

  test('I6 leases in another place: a task that is deleted ends the turn all the same', async () => {
    const { options, started, aborted, over } = silentAgent();
    const extraProviders = [{ provide: LeaseStore, useValue: new InMemoryLeaseStore() }];
    const app = await fixture.start({ ...options, cluster: { ...options.cluster, extraProviders } });
    const sending = errorName(send(await app.client(), 'hello'));
    const { taskId } = await started.promise;
    await deleteTask(taskId);
    await expectAborted(aborted);
    expect(await within(sending, 5_000, 'the send ends')).toBe('TaskNotFoundError');
    over.resolve();
  });

  test('I6 a lease that is deleted alone: the executor is told within a poll, and who sent the message waits on', async () => {
    const { options, started, aborted, over } = silentAgent();
    const app = await fixture.start(options);
    const client = await app.client();
    const sending = send(client, 'hello');
    const { taskId } = await started.promise;
    await deleteRows(taskId, 'a2a_task_leases');
    await expectAborted(aborted);
    // Nobody runs it now, as for a task of an app without leases: a cancel ends it, and whoever waits for it hears that.
    expect((await cancel(client, taskId)).status?.state).toBe(TaskState.TASK_STATE_CANCELED);
    expect((await within(sending, 5_000, 'the send ends')).status?.state).toBe(TaskState.TASK_STATE_CANCELED);
    over.resolve();
  });

  test('I6 a repeated message whose task is deleted while it waits ends with TaskNotFoundError', async () => {
    const { options, started, over } = silentAgent();
    const app = await fixture.start(options);
    const client = await app.client();
    const first = errorName(send(client, 'hello', { messageId: 'm1' }));
    const { taskId } = await started.promise;
    const again = errorOf(send(client, 'hello', { messageId: 'm1' }));
    const stream = Recording.send(client, 'hello', { messageId: 'm1' });
    await stream.task();
    await deleteTask(taskId);
    expect(await within(first, 5_000, 'the send ends')).toBe('TaskNotFoundError');
    expect((await within(again, 5_000, 'its repetition ends')).name).toBe('TaskNotFoundError');
    expect(await nameOf(stream.ended)).toBe('TaskNotFoundError');
    await dropLeases();
    over.resolve();
  });

  test('I6 a subscriber that waits for the next turn is told that the task is gone', async () => {
    const app = await fixture.start({
      execute: (context, bus) => publishStatus(bus, context, TaskState.TASK_STATE_INPUT_REQUIRED),
    });
    const client = await app.client();
    const { id } = await send(client, 'hello');
    const subscriber = Recording.subscribe(client, id);
    await subscriber.task();
    await deleteTask(id);
    expect(await nameOf(subscriber.ended)).toBe('TaskNotFoundError');
  });
});

describe('A turn that is lost together with commits of it', () => {
  test.each([
    [1, 'FAILED', TaskState.TASK_STATE_FAILED],
    [3, 'FAILED', TaskState.TASK_STATE_FAILED],
    [3, 'INPUT_REQUIRED', TaskState.TASK_STATE_INPUT_REQUIRED],
  ])('I6 its sender, who was told %d events more, hears how it ends: %s', async (lost, name, state) => {
    const { options, over } = silentAgent();
    const step = new Deferred();
    const app = await fixture.start({
      ...options,
      cluster: { leases: LEASES, streams: { pollIntervalMs: 600_000, notify: false } },
      execute: async (context, bus) => {
        working(bus, context);
        await step.promise;
        for (let at = 0; at < lost; at += 1) publishArtifact(bus, context, artifactOf(`a${at}`, textPart('lost')));
        await over.promise;
      },
    });
    const sender = Recording.send(await app.client(), 'hello');
    const { id: taskId } = await sender.task();
    await sender.waitFor((response) => summaryOf(response) === 'status WORKING');
    const [row] = await fixture.database.query<{ no: string }>(
      'SELECT task_no AS no FROM a2a_tasks WHERE task_id = $1',
      [taskId],
    );
    const backup = await backUp(fixture.database, Number(row!.no));
    step.resolve();
    await sender.waitFor((response) => summaryOf(response) === `artifact a${lost - 1}`);
    await backup.restore();
    const tasks = app.nest.get(VersionedTaskStore, { strict: false });
    await tasks.forceEnd({ tenant: '', owner: 'unknown', taskId }, () =>
      statusEvent({ taskId, contextId: '' }, state, 'lost'),
    );
    // The turn is lost, and whoever waits for its end has looked at the task, before the stream hears of anything.
    const looked = new Deferred();
    const find = tasks.findUpTo.bind(tasks);
    tasks.findUpTo = (which, maxBytes) => find(which, maxBytes).finally(() => looked.resolve());
    await app.nest.get(LeaseWatch, { strict: false }).runOnce();
    await looked.promise;
    await app.nest.get(Poller, { strict: false }).runOnce();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe(`status ${name}`);
    over.resolve();
  });
});
