import type { Client } from '@a2a-js/sdk/client';
import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import { TaskState } from '@a2a-js/sdk';
import { errorName, send } from '../../tools/harness/client.js';
import { Recording } from '../helpers/recording.js';
import { configOf, PushReceiver } from '../helpers/push-receiver.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { AgentAppFixture, type AgentAppOptions, cardWith, TRANSPORTS } from './agent-app.fixture.js';
import {
  artifactOf,
  completed,
  inputRequired,
  publishArtifact,
  publishStatus,
  textPart,
  working,
} from './agent-events.js';

const fixture = new AgentAppFixture();

/** An app whose card offers push, to this machine too. */
const offering = (options: AgentAppOptions, push = {}): AgentAppOptions => ({
  ...options,
  cluster: {
    agentCard: cardWith({ pushNotifications: true }),
    push: { allow: ['127.0.0.0/8'], backoffMs: 20, ...push },
    ...options.cluster,
  },
});

/** A message that brings a receiver with it. */
const withReceiver = (client: Client, text: string, taskPushNotificationConfig: TaskPushNotificationConfig) =>
  send(client, text, { configuration: { taskPushNotificationConfig } });

const asks: AgentAppOptions = {
  execute: (context, bus) => {
    if (!context.task) return inputRequired(bus, context, 'go on?');
    working(bus, context);
    publishArtifact(bus, context, artifactOf('a1', textPart('one')));
    completed(bus, context, 'done');
  },
};

interface Row {
  configId: string;
  delivered: number;
  attempts: number;
  failed: string | null;
  through: boolean;
}

const rows = (): Promise<Row[]> =>
  fixture.database.query(
    `SELECT config_id AS "configId", delivered_version AS delivered, attempts, failed,
            coalesce(claimed_until = 'infinity', false) AS through
       FROM a2a_push_configs ORDER BY config_id`,
  );

afterEach(() => fixture.database.query('DELETE FROM a2a_push_configs'));

describe.each(TRANSPORTS)('Push receivers, over %s', (transport) => {
  test('O47 one that came with the message is told the turn from its Task to its end, in order', async () => {
    const receiver = await PushReceiver.start();
    const app = await fixture.start(
      offering({
        execute: (context, bus) => {
          working(bus, context);
          publishArtifact(bus, context, artifactOf('a1', textPart('one')));
          completed(bus, context, 'done');
        },
      }),
    );
    const client = await app.client({ transport });
    await withReceiver(client, 'hello', configOf(receiver.url(), { token: 'secret' }));
    await receiver.until(() => receiver.seen().includes('status COMPLETED'));
    expect(receiver.seen()).toEqual(['task SUBMITTED', 'status WORKING', 'artifact a1', 'status COMPLETED']);
    const [{ headers } = { headers: {} }] = receiver.received;
    expect(headers).toMatchObject({
      'content-type': 'application/a2a+json',
      'x-a2a-notification-token': 'secret',
    });
    await eventually(async () => (await rows())[0]?.through);
  });

  test('O48 registered at A, the events written by B: delivered, over several turns', async () => {
    const receiver = await PushReceiver.start();
    const [a, b] = [await fixture.start(offering(asks)), await fixture.start(offering(asks))];
    const [atA, atB] = [await a.client({ transport }), await b.client({ transport })];
    const { id } = await send(atB, 'hello');
    const authentication = { scheme: 'Bearer', credentials: 'abc' };
    await atA.createTaskPushNotificationConfig(configOf(receiver.url(), { taskId: id, authentication }));
    await send(atB, 'go on', { taskId: id });
    await receiver.until(() => receiver.seen().includes('status COMPLETED'));
    expect(receiver.seen()).toEqual(['status WORKING', 'artifact a1', 'status COMPLETED']);
    expect(receiver.received[0]!.headers.authorization).toBe('Bearer abc');
  });

  test('are created, got, listed and deleted; the same one twice is one', async () => {
    const app = await fixture.start(offering(asks));
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'hello');
    const given = configOf('https://example.com/hook', { taskId, token: 't' });
    const first = await client.createTaskPushNotificationConfig(given);
    const again = await client.createTaskPushNotificationConfig(given);
    expect(first.id).toBe(again.id);
    await client.createTaskPushNotificationConfig({ ...given, id: 'mine', url: 'https://example.com/other' });
    const page = { tenant: '', taskId, pageSize: 0, pageToken: '' };
    const listed = await client.listTaskPushNotificationConfig(page);
    expect(listed.configs.map(({ id }) => id).sort()).toEqual(['mine', first.id].sort());
    const mine = { tenant: '', taskId, id: 'mine' };
    expect(await client.getTaskPushNotificationConfig(mine)).toMatchObject({ url: 'https://example.com/other' });
    for (let times = 0; times < 2; times += 1) await client.deleteTaskPushNotificationConfig(mine);
    expect(await errorName(client.getTaskPushNotificationConfig(mine))).toBe('TaskNotFoundError');
    expect((await client.listTaskPushNotificationConfig(page)).configs.map(({ id }) => id)).toEqual([first.id]);
  });

  test.each([
    ['https://example.org/\0', 'no URL'],
    ['ftp://example.com/', 'no http'],
    ['https://user:word@example.com/', 'credentials'],
    ['https://10.0.0.1/', 'private'],
  ])('%j is refused when it is registered (%s)', async (url) => {
    const app = await fixture.start(offering(asks, { allow: [] }));
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'hello');
    const refused = client.createTaskPushNotificationConfig(configOf(url, { taskId }));
    expect(await errorName(refused)).toBe('RequestMalformedError');
    expect(await rows()).toEqual([]);
  });
});

describe('Push deliveries', () => {
  const started = async (push = {}, behaviour: AgentAppOptions = asks) => {
    const app = await fixture.start(offering(behaviour, push));
    return { app, client: await app.client() };
  };

  test('O47 a receiver that fails is told again, in order, and nothing is left out', async () => {
    const receiver = await PushReceiver.start();
    const { client } = await started();
    let failures = 3;
    receiver.answer = (response) => {
      failures -= 1;
      response.writeHead(failures >= 0 ? 503 : 200).end();
    };
    const { id } = await withReceiver(client, 'hello', configOf(receiver.url()));
    await send(client, 'go on', { taskId: id });
    await receiver.until(() => receiver.seen().includes('status COMPLETED'));
    const seen = receiver.seen();
    expect(seen.slice(0, 4)).toEqual(Array(4).fill('task SUBMITTED'));
    expect(seen.slice(3)).toEqual([
      'task SUBMITTED',
      'status INPUT_REQUIRED',
      'status WORKING',
      'artifact a1',
      'status COMPLETED',
    ]);
    await eventually(async () => (await rows())[0]?.through);
    expect((await rows())[0]).toMatchObject({ attempts: 0, failed: null });
  });

  test('a receiver that does not recover is given up with the reason, and told on when it is registered again', async () => {
    const receiver = await PushReceiver.start();
    const { app, client } = await started({ maxAttempts: 2 });
    receiver.answer = 500;
    const config = configOf(receiver.url('/path?token=hidden'), { id: 'mine', token: 'secret' });
    const { id } = await withReceiver(client, 'hello', config);
    await eventually(async () => (await rows())[0]?.failed);
    expect(await rows()).toEqual([
      { configId: 'mine', delivered: 0, attempts: 2, failed: `127.0.0.1:${receiver.port} answered 500`, through: true },
    ]);
    expect([...fixture.logger.warnings, ...fixture.logger.errors].join()).not.toMatch(/hidden|secret/);
    receiver.answer = 200;
    receiver.received.length = 0;
    await client.createTaskPushNotificationConfig({ ...config, taskId: id });
    await send(client, 'go on', { taskId: id });
    await receiver.until(() => receiver.seen('/path?token=hidden').includes('status COMPLETED'));
    expect(receiver.seen('/path?token=hidden')[0]).toBe('task SUBMITTED');
    await app.close();
  });

  test.each([
    ['answers 410', (receiver: PushReceiver) => void (receiver.answer = 410), / answered 410$/],
    [
      'redirects',
      (receiver: PushReceiver) =>
        void (receiver.answer = (response) => response.writeHead(302, { location: receiver.url('/elsewhere') }).end()),
      / answered 302 \(redirects are not followed\)$/,
    ],
    [
      'does not answer',
      (receiver: PushReceiver) => void (receiver.answer = () => undefined),
      /no answer within 200 ms$/,
    ],
    [
      'hangs up',
      (receiver: PushReceiver) => void (receiver.answer = (response) => response.destroy()),
      /ECONNRESET$|closed$|hang up$/,
    ],
  ])('a receiver that %s', async (_, arrange, reason) => {
    const receiver = await PushReceiver.start();
    arrange(receiver);
    const { client } = await started({ maxAttempts: 1, timeoutMs: 200 });
    await withReceiver(client, 'hello', configOf(receiver.url()));
    await eventually(async () => (await rows())[0]?.failed, { timeoutMs: 10_000 });
    expect((await rows())[0]!.failed).toMatch(reason);
    expect(receiver.seen('/elsewhere')).toEqual([]);
  });

  test('O47 one that takes longer than a heartbeat is told once and in order, and holds up no other of its task', async () => {
    const [fast, slow] = [await PushReceiver.start(), await PushReceiver.start()];
    const answers = new Deferred();
    slow.answer = (response) => void answers.promise.then(() => response.writeHead(200).end());
    const { client } = await started({}, { ...asks, cluster: { leases: { heartbeatIntervalMs: 200, ttlMs: 2_000 } } });
    const { id } = await withReceiver(client, 'hello', configOf(fast.url()));
    await client.createTaskPushNotificationConfig(configOf(slow.url(), { id: 'slow', taskId: id }));
    await send(client, 'go on', { taskId: id });
    await fast.until(() => fast.seen().includes('status COMPLETED'));
    await new Promise((resolve) => setTimeout(resolve, 500)); // two heartbeats and more
    expect(slow.seen()).toEqual(['status WORKING']);
    answers.resolve();
    await slow.until(() => slow.seen().includes('status COMPLETED'));
    expect(slow.seen()).toEqual(['status WORKING', 'artifact a1', 'status COMPLETED']);
  });

  test('O47 what a cancel, a failure and a shutdown write is pushed', async () => {
    const receiver = await PushReceiver.start();
    const hold = new Deferred();
    const behaviour: AgentAppOptions = {
      execute: async (context, bus) => {
        working(bus, context);
        await context.turn.flush();
        await hold.promise;
        publishStatus(bus, context, TaskState.TASK_STATE_FAILED);
      },
    };
    const [a, b] = [await fixture.start(offering(behaviour)), await fixture.start(offering(behaviour))];
    const client = await a.client();
    const start = async (path: string): Promise<string> => {
      const sender = Recording.send(client, 'hello');
      const { id } = await sender.task();
      await client.createTaskPushNotificationConfig(configOf(receiver.url(path), { taskId: id }));
      return id;
    };
    const canceled = await start('/canceled');
    await (await b.client()).cancelTask({ tenant: '', id: canceled, metadata: undefined });
    await start('/shutdown');
    await a.close();
    await receiver.until(() => receiver.seen('/shutdown').includes('status FAILED'));
    await receiver.until(() => receiver.seen('/canceled').includes('status CANCELED'));
    hold.resolve();
  });
});
