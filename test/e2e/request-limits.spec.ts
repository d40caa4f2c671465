import { randomUUID } from 'node:crypto';
import type { Client } from '@a2a-js/sdk/client';
import { jest } from '@jest/globals';
import { PushConfigStore, VersionedTaskStore } from 'nestjs-a2a-cluster/stores';
import { errorOf, send, userMessage } from '../../tools/harness/client.js';
import {
  agentByAttempt,
  ended,
  hang,
  RecoveryFixture,
  reExecuting,
  statusText,
  sweep,
} from './abandoned-turns.fixture.js';
import { type AgentApp, type AgentBehaviour, ALL_TRANSPORTS, cardWith, TRANSPORTS } from './agent-app.fixture.js';
import { artifactOf, completed, publishArtifact, textOf, textPart, working } from './agent-events.js';
import { withGrpc } from './grpc.fixture.js';
import { messageBody, post } from './raw-requests.js';

const fixture = new RecoveryFixture();
const { leases } = fixture;

/** Says how many tasks a message refers to; `big` makes a task of 300 kB. */
const agent: AgentBehaviour = {
  execute: (context, bus) => {
    if (textOf(context.userMessage) === 'big') {
      publishArtifact(bus, context, artifactOf('big', textPart('x'.repeat(300_000))));
    }
    completed(bus, context, `refers to ${context.referenceTasks?.length ?? 0}`);
  },
};

const refer = async (client: Client, ids: readonly string[]) =>
  client.sendMessage({
    tenant: '',
    message: { ...userMessage('look'), referenceTaskIds: [...ids] },
    configuration: undefined,
    metadata: undefined,
  });

/** What is read of the tasks of an app, from now on. */
function readsOf(app: AgentApp): string[] {
  const tasks = app.nest.get(VersionedTaskStore, { strict: false });
  const reads: string[] = [];
  for (const name of ['find', 'findUpTo'] as const) {
    const method = tasks[name].bind(tasks) as (...args: unknown[]) => Promise<undefined>;
    jest.spyOn(tasks, name).mockImplementation((...args: unknown[]) => {
      reads.push(name);
      return method(...args);
    });
  }
  return reads;
}

afterEach(() => jest.restoreAllMocks());

describe.each(ALL_TRANSPORTS)('The tasks that a message refers to, over %s', (transport) => {
  test('are at most as many as the limit: one more is malformed, and none of them is read', async () => {
    const app = await fixture.start(withGrpc(agent));
    const client = await app.client({ transport });
    const reads = readsOf(app);
    const error = await errorOf(
      refer(
        client,
        Array.from({ length: 21 }, () => randomUUID()),
      ),
    );
    expect(error.name).toBe('RequestMalformedError');
    expect(error.message).toContain('message has 21 different referenceTaskIds: it may have at most 20.');
    expect(reads).toEqual([]);
  });
});

test('The tasks that a message refers to hold no more than the limit together', async () => {
  const app = await fixture.start({ ...agent, cluster: { requests: { maxReferenceBytes: 700_000 } } });
  const client = await app.client();
  const ids = [];
  for (let at = 0; at < 3; at += 1) ids.push((await send(client, 'big')).id);
  const error = await errorOf(refer(client, ids));
  expect(error.name).toBe('RequestMalformedError');
  expect(error.message).toMatch(/hold more than 700000 bytes/);
  const answer = await refer(client, ids.slice(1));
  expect('status' in answer && statusText(answer)).toBe('refers to 2');
});

test('O36 a turn is run again though its message refers to more than the limits now allow: the surplus is left out', async () => {
  const dying = agentByAttempt(
    async (context, bus) => {
      if (textOf(context.userMessage) !== 'look') return void (await agent.execute?.(context, bus));
      working(bus, context);
      await context.turn.flush();
      await hang();
    },
    (context, bus) => completed(bus, context, `refers to ${context.referenceTasks?.map(({ id }) => id).join()}`),
  );
  const a = await fixture.start({ ...dying, cluster: reExecuting() });
  const requests = { maxReferenceTasks: 3, maxReferenceBytes: 500_000 };
  const b = await fixture.start({ ...dying, cluster: reExecuting({}, { requests }) });
  const client = await a.client();
  const ids: string[] = [];
  for (const text of ['small', 'big', 'big', 'small']) ids.push((await send(client, text)).id);
  const sent = await client.sendMessage({
    tenant: '',
    message: { ...userMessage('look'), referenceTaskIds: ids },
    configuration: { ...NOTHING, returnImmediately: true },
    metadata: undefined,
  });
  if ('messageId' in sent) throw new Error('it was answered with a message');
  await leases.abandon(sent.id);
  expect(await sweep(b)).toMatchObject({ claimed: 1, reExecuted: 1 });
  expect(statusText(await ended(client, sent.id))).toBe(`refers to ${ids.slice(0, 2).join()}`);
});

const NOTHING = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength: undefined };

describe.each(TRANSPORTS)('A request over %s', (transport) => {
  test('that holds more JSON values than the limit is refused before it is parsed', async () => {
    const app = await fixture.start({ ...agent, cluster: { requests: { maxValues: 1_000 } } });
    const parse = jest.spyOn(JSON, 'parse');
    const metadata = { list: Array.from({ length: 1_001 }, (_, at) => at) };
    const answer = await post(app, transport, messageBody(transport, { metadata }));
    expect(parse.mock.calls.filter(([text]) => text.includes('"list"'))).toEqual([]);
    expect(answer.text).toContain('The request body holds more than 1000 JSON values.');
    expect([answer.status, answer.code]).toEqual(transport === 'JSONRPC' ? [200, -32600] : [400, 400]);
    expect(await send(await app.client({ transport }), 'still there?')).toBeTruthy();
  });

  test('of a message with too many parts is malformed, and stores nothing', async () => {
    const app = await fixture.start({ ...agent, cluster: { requests: { maxParts: 3 } } });
    const parts = Array(4).fill({ text: 'a' });
    const before = await fixture.database.query('SELECT FROM a2a_tasks');
    const answer = await post(app, transport, messageBody(transport, { parts }));
    expect(answer.text).toContain('message has 4 parts: it may have at most 3.');
    expect(await fixture.database.query('SELECT FROM a2a_tasks')).toHaveLength(before.length);
    expect((await post(app, transport, messageBody(transport, { parts: parts.slice(1) }))).text).toContain('COMPLETED');
  });
});

test('A message over gRPC that holds more values than the limit is malformed, and is not decoded', async () => {
  const app = await fixture.start(withGrpc({ ...agent, cluster: { requests: { maxValues: 1_000 } } }));
  const client = await app.client({ transport: 'GRPC' });
  const message = { ...userMessage('many'), referenceTaskIds: Array<string>(1_001).fill('a') };
  const error = await errorOf(
    client.sendMessage({ tenant: '', message, configuration: undefined, metadata: undefined }),
  );
  expect(error.name).toBe('RequestMalformedError');
  expect(error.message).toContain('The request holds more than 1000 values.');
  expect(await send(client, 'still there?')).toBeTruthy();
});

describe.each(['JSONRPC', 'GRPC'] as const)('The push receivers of a task, over %s', (transport) => {
  test('are listed in pages of 100 at most, each once', async () => {
    const app = await fixture.start(withGrpc({ ...agent, cluster: { agentCard: CARD } }));
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'hello');
    const [task] = await fixture.database.query<{ no: number }>(
      'SELECT task_no::integer AS no FROM a2a_tasks WHERE task_id = $1',
      [taskId],
    );
    const configs = app.nest.get(PushConfigStore, { strict: false });
    const ids = Array.from({ length: 205 }, (_, at) => `${at}-Ä-a`.padStart(8, 'B'));
    for (const id of ids) {
      const config = { tenant: '', id, taskId, url: 'https://example.com', token: '', authentication: undefined };
      await configs.save(task!.no, { config, wireVersion: '1.0' });
    }
    const pages: string[][] = [];
    for (let pageToken = '', more = true; more; more = pageToken !== '') {
      const page = await client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 0, pageToken });
      pages.push(page.configs.map(({ id }) => id));
      pageToken = page.nextPageToken;
    }
    expect(pages.map((page) => page.length)).toEqual([100, 100, 5]);
    expect(pages.flat()).toEqual([...ids].sort());
    const few = await client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 7, pageToken: '' });
    expect(few.configs).toHaveLength(7);
    await fixture.database.query('DELETE FROM a2a_push_configs');
  });

  test('have no secret that is longer than a header may be', async () => {
    const app = await fixture.start(withGrpc({ ...agent, cluster: { agentCard: CARD } }));
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'hello');
    const config = { tenant: '', id: 'c', taskId, url: 'https://example.com', authentication: undefined };
    const error = await errorOf(client.createTaskPushNotificationConfig({ ...config, token: 'x'.repeat(8_193) }));
    expect(error.message).toContain('is longer than 8192 characters');
  });
});

const CARD = cardWith({ pushNotifications: true });
