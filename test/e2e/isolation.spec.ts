import type { StreamResponse, Task } from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';
import { collect, errorOf, userMessage } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { Deferred } from '../../tools/harness/wait.js';
import { AgentAppFixture, type AgentAppOptions, ALL_TRANSPORTS, cardWith } from './agent-app.fixture.js';
import { completed, inputRequired, textOf, working } from './agent-events.js';
import { withGrpc } from './grpc.fixture.js';
import { listTasks } from '../helpers/list-tasks.js';

const fixture = new AgentAppFixture();

/** Two hundred calls, on a machine whose cores are all busy with something else. */
const SLOW_MS = 120_000;

const RECEIVER = 'https://203.0.113.7/hook';

let goOn = new Deferred<void>();

/** `ask` waits for its client, `work` for the test, anything else completes and says which tasks it could see. */
const options: AgentAppOptions = withGrpc({
  execute: async (context, bus) => {
    const text = textOf(context.userMessage);
    if (text === 'ask') return inputRequired(bus, context);
    if (text === 'work') {
      working(bus, context);
      await goOn.promise;
    }
    completed(bus, context, `saw ${(context.referenceTasks ?? []).map(({ id }) => id).join()}`);
  },
  cluster: {
    push: { allow: ['203.0.113.0/24'], maxAttempts: 1 },
    agentCard: cardWith({ pushNotifications: true }),
  },
});

/** Who calls, as whom of which tenant. */
interface Caller {
  client: Client;
  tenant: string;
}

const NAMED = { tenant: '', id: '', taskId: '', url: RECEIVER, token: '', authentication: undefined };

const requestOf = ({ tenant }: Caller, taskId: string, text = 'end', referenceTaskIds: string[] = []) => ({
  tenant,
  message: { ...userMessage(text, { taskId }), referenceTaskIds },
  configuration: undefined,
  metadata: undefined,
});

function taskIn({ payload }: StreamResponse): Task {
  if (payload?.$case !== 'task') throw new Error(`Expected a task first, got ${payload?.$case}`);
  return payload.value;
}

const listOf = ({ client, tenant }: Caller) => listTasks(client, { tenant, pageSize: 100, includeArtifacts: true });

/** Every method that names a task, in an order in which its owner may call them all. */
const METHODS: Record<string, (caller: Caller, id: string) => Promise<unknown>> = {
  GetTask: ({ client, tenant }, id) => client.getTask({ tenant, id, historyLength: undefined }),
  CreateTaskPushNotificationConfig: ({ client, tenant }, taskId) =>
    client.createTaskPushNotificationConfig({ ...NAMED, tenant, taskId, id: 'hook' }),
  GetTaskPushNotificationConfig: ({ client, tenant }, taskId) =>
    client.getTaskPushNotificationConfig({ tenant, taskId, id: 'hook' }),
  ListTaskPushNotificationConfigs: ({ client, tenant }, taskId) =>
    client.listTaskPushNotificationConfig({ tenant, taskId, pageSize: 0, pageToken: '' }),
  DeleteTaskPushNotificationConfig: ({ client, tenant }, taskId) =>
    client.deleteTaskPushNotificationConfig({ tenant, taskId, id: 'hook' }),
  SubscribeToTask: async ({ client, tenant }, id) => {
    for await (const response of client.resubscribeTask({ tenant, id })) return response;
    return undefined;
  },
  SendMessage: (caller, id) => caller.client.sendMessage(requestOf(caller, id)),
  SendStreamingMessage: (caller, id) => collect(caller.client.sendMessageStream(requestOf(caller, id))),
  CancelTask: ({ client, tenant }, id) => client.cancelTask({ tenant, id, metadata: undefined }),
};

const TABLES = [
  'a2a_tasks',
  'a2a_task_events',
  'a2a_message_receipts',
  'a2a_task_effects',
  'a2a_push_configs',
  'a2a_task_leases',
];

/** All that is stored, but for the times of renewals. */
async function everything(): Promise<unknown[]> {
  const all: unknown[] = [];
  for (const table of TABLES) {
    const rows = await fixture.database.query<{ row: object }>(`SELECT to_jsonb(t) AS row FROM ${table} AS t`);
    all.push(rows.map(({ row }) => JSON.stringify({ ...row, renewed_at: undefined, expires_at: undefined })).sort());
  }
  return all;
}

describe.each(ALL_TRANSPORTS)('O43 Isolation of callers, over %s', (transport) => {
  const callerOf = async (
    app: Awaited<ReturnType<typeof fixture.start>>,
    user: string | undefined,
    tenant = '',
  ): Promise<Caller> => ({
    client: await app.client({ transport, ...(user !== undefined && { user }) }),
    tenant,
  });

  beforeEach(async () => {
    await fixture.database.query(`TRUNCATE ${TABLES.join()}`);
    goOn = new Deferred();
  });

  afterEach(() => goOn.resolve());

  test.each<[string, string | undefined, string]>([
    ['a user', 'alice', ''],
    ['a user of a tenant', 'alice', 'acme'],
    ['an anonymous caller', undefined, ''],
  ])(
    'the task of %s is not found by anybody else, through any method, and nothing changes',
    async (_who, user, tenant) => {
      const whose = [user, tenant] as const;
      const [a, b] = await fixture.startTwo(options);
      const owner = await callerOf(a, ...whose);
      const others: Record<string, Caller> = {
        'another user': await callerOf(b, 'mallory', whose[1]),
        'the same user of another tenant': await callerOf(b, whose[0], 'other'),
        ...(whose[0] && { 'an anonymous caller': await callerOf(b, undefined, whose[1]) }),
        ...(whose[1] && { 'the same user without a tenant': await callerOf(b, whose[0], '') }),
        'another user at the same replica': await callerOf(a, 'mallory', whose[1]),
      };
      const waiting = (await owner.client.sendMessage(requestOf(owner, '', 'ask'))) as Task;
      const running = owner.client.sendMessageStream(requestOf(owner, '', 'work'));
      const [first, second] = [await running.next(), await running.next()];
      const runningId = taskIn(first.value as StreamResponse).id;
      expect((second.value as StreamResponse).payload?.$case).toBe('statusUpdate');
      const ended = (await owner.client.sendMessage(requestOf(owner, '', 'end'))) as Task;
      const before = await everything();

      for (const [who, other] of Object.entries(others)) {
        const tried = Object.entries(METHODS).map(async ([method, call]) => {
          const unknown = await errorOf(call(other, 'no-such'));
          for (const id of [waiting.id, runningId, ended.id]) {
            const { name, message } = await errorOf(call(other, id));
            // What is there and what is not look the same.
            expect([who, method, name, message.replaceAll(id, 'no-such')]).toEqual([
              who,
              method,
              'TaskNotFoundError',
              unknown.message,
            ]);
          }
        });
        await Promise.all(tried);
        const { tasks, totalSize } = await listOf(other);
        expect([who, tasks, totalSize]).toEqual([who, [], 0]);
      }
      expect(await everything()).toEqual(before);

      goOn.resolve();
      await collect(running);
      for (const [method, call] of Object.entries(METHODS)) {
        const own = (await owner.client.sendMessage(requestOf(owner, '', 'ask'))) as Task;
        if (method.startsWith('GetTaskPush')) await METHODS.CreateTaskPushNotificationConfig!(owner, own.id);
        await expect(call(owner, own.id).then(() => method)).resolves.toBe(method);
      }
    },
    SLOW_MS,
  );

  test("an executor does not get to see somebody else's tasks either, and says so to nobody", async () => {
    const app = await fixture.start(options);
    const [alice, mallory] = [await callerOf(app, 'alice'), await callerOf(app, 'mallory')];
    const mine = (await alice.client.sendMessage(requestOf(alice, '', 'ask'))) as Task;
    const sawBy = async (caller: Caller): Promise<string> => {
      const task = (await caller.client.sendMessage(requestOf(caller, '', 'end', [mine.id]))) as Task;
      expect(stateName(task)).toBe('COMPLETED');
      return textOf(task.status!.message);
    };
    expect(await sawBy(mallory)).toBe('saw ');
    expect(await sawBy(alice)).toBe(`saw ${mine.id}`);
  });
});
