import type { Client } from '@a2a-js/sdk/client';
import { status } from '@grpc/grpc-js';
import { cancel, errorName, getTask, send, subscribe } from '../../tools/harness/client.js';
import { RawGrpcClient, statusOf } from '../helpers/raw-grpc-client.js';
import { legacyCardOf, legacyClientFor } from '../../tools/harness/legacy-client.js';
import { PushReceiver } from '../helpers/push-receiver.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { eventually, within } from '../../tools/harness/wait.js';
import {
  type AgentApp,
  AgentAppFixture,
  type AgentAppOptions,
  type AgentBehaviour,
  ALL_TRANSPORTS,
  cardWith,
  TRANSPORTS,
} from './agent-app.fixture.js';
import { artifactOf, completed, inputRequired, publishArtifact, textOf, textPart } from './agent-events.js';
import { targetOf, watchFollowers, withGrpc } from './grpc.fixture.js';
import { messageBody, post } from './raw-requests.js';
import { patientAgent } from './agents.js';

const fixture = new AgentAppFixture();

const agent: AgentBehaviour = {
  execute: (context, bus) => {
    if (textOf(context.userMessage) !== 'end') return inputRequired(bus, context);
    publishArtifact(bus, context, artifactOf('a1', textPart('made')));
    completed(bus, context);
  },
};

/** An app that serves version 0.3 too, on all transports. */
const both = (options: AgentAppOptions): AgentAppOptions =>
  withGrpc({ ...options, cluster: { legacyCompat: true, ...options.cluster } });

const pushing: AgentAppOptions['cluster'] = {
  agentCard: cardWith({ pushNotifications: true }),
  push: { allow: ['127.0.0.0/8'], backoffMs: 20 },
};

describe('Version 0.3', () => {
  test('is refused unless it is asked for', async () => {
    const app = await fixture.start(withGrpc(agent));
    for (const version of [null, '0.3']) {
      for (const transport of TRANSPORTS) {
        const { reason, code } = await post(app, transport, messageBody(transport), { version });
        expect([reason, code]).toEqual(['VERSION_NOT_SUPPORTED', transport === 'JSONRPC' ? -32009 : 400]);
      }
    }
    const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'message/send', params: {} });
    expect((await post(app, 'JSONRPC', call)).code).toBe(-32601);
    expect((await new RawGrpcClient(targetOf(app)).failure('getTask', { tenant: '', id: 'x' }, {})).code).toBe(
      status.FAILED_PRECONDITION,
    );
    expect(await legacyCardOf(app.url)).not.toHaveProperty('url');
  });

  test('stands in the card for clients of both versions', async () => {
    const skill = { id: 's', name: 's', description: 's', tags: ['t'], examples: [], inputModes: [], outputModes: [] };
    const agentCard = { ...pushing.agentCard!, skills: [{ ...skill, securityRequirements: [] }] };
    const app = await fixture.start(both({ ...agent, cluster: { agentCard } }));
    const old = await legacyCardOf(app.url);
    expect(old).toMatchObject({
      name: 'test agent',
      protocolVersion: '0.3',
      url: `${app.url}/a2a/jsonrpc`,
      preferredTransport: 'JSONRPC',
      additionalInterfaces: [
        { url: `${app.url}/a2a/rest`, transport: 'HTTP+JSON' },
        { url: targetOf(app), transport: 'GRPC' },
      ],
      capabilities: { streaming: true, pushNotifications: true },
      skills: [{ id: 's', tags: ['t'] }],
    });
    const response = await fetch(`${app.url}/.well-known/agent-card.json`, { headers: { 'a2a-version': '1.0' } });
    expect(response.headers.get('vary')).toMatch(/a2a-version/i);
    const { supportedInterfaces, ...card } = (await response.json()) as Record<string, unknown>;
    expect(card).not.toHaveProperty('protocolVersion');
    expect((supportedInterfaces as { protocolVersion: string }[]).map((it) => it.protocolVersion)).toEqual([
      '1.0',
      '1.0',
      '1.0',
      '0.3',
      '0.3',
      '0.3',
    ]);
  });

  test('is served on one transport and not on another', async () => {
    const app = await fixture.start(both({ ...agent, cluster: { legacyCompat: { rest: true } } }));
    expect(await legacyCardOf(app.url)).toMatchObject({ url: `${app.url}/a2a/rest`, preferredTransport: 'HTTP+JSON' });
    const client = await legacyClientFor(app.url, { transport: 'HTTP+JSON' });
    expect(stateName(await send(client, 'end'))).toBe('COMPLETED');
    const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'message/send', params: {} });
    expect((await post(app, 'JSONRPC', call, { version: null })).code).toBe(-32009);
  });
});

describe.each(ALL_TRANSPORTS)('A client of version 0.3, over %s', (transport) => {
  const start = async (options: AgentAppOptions): Promise<{ app: AgentApp; old: Client; modern: Client }> => {
    const app = await fixture.start(both(options));
    const [old, modern] = [await legacyClientFor(app.url, { transport }), await app.client({ transport })];
    expect([old.protocolVersion, modern.protocolVersion]).toEqual(['0.3', '1.0']);
    return { app, old, modern };
  };

  test('sends, continues, streams, reads, follows and cancels, beside one of 1.0', async () => {
    const { old, modern } = await start(agent);
    const { id: taskId } = await send(old, 'hello');
    const followers = [old, modern].map((client) => Recording.subscribe(client, taskId));
    for (const follower of followers) expect((await follower.task()).id).toBe(taskId);
    const sender = Recording.send(old, 'end', { taskId });
    const seen = (await sender.finished()).map(summaryOf);
    expect(seen).toEqual(['task INPUT_REQUIRED', 'artifact a1', 'status COMPLETED']);
    for (const follower of followers) expect((await follower.finished()).map(summaryOf)).toEqual(seen);
    for (const client of [old, modern]) {
      const { artifacts, history, ...task } = await getTask(client, taskId);
      expect(stateName(task)).toBe('COMPLETED');
      expect(artifacts[0]?.parts[0]?.content).toEqual({ $case: 'text', value: 'made' });
      expect(history.map(textOf)).toEqual(['hello', 'end']);
    }
    const { id } = await send(modern, 'hello');
    expect(stateName(await cancel(old, id))).toBe('CANCELED');
    expect(await errorName(cancel(old, taskId))).toBe('TaskNotCancelableError');
    expect(await errorName(getTask(old, 'none'))).toBe('TaskNotFoundError');
    await expect(Promise.resolve(errorName(subscribe(old, id)))).resolves.toBe('UnsupportedOperationError');
  });

  test('a task that is sent at A is followed, seen and canceled at B', async () => {
    const options = patientAgent();
    const [a, b] = await fixture.startTwo(both(options));
    const sender = Recording.send(await legacyClientFor(a.url, { transport }), 'hello');
    const { id } = await sender.task();
    const there = await legacyClientFor(b.url, { transport });
    const subscriber = Recording.subscribe(there, id);
    await subscriber.task();
    expect(stateName(await cancel(there, id))).toBe('CANCELED');
    for (const recording of [sender, subscriber]) {
      expect((await recording.finished()).map(summaryOf).at(-1)).toBe('status CANCELED');
    }
  });

  test("does not find somebody else's task, and is the same caller as with 1.0", async () => {
    const app = await fixture.start(both(agent));
    const alice = await legacyClientFor(app.url, { transport, user: 'alice' });
    const { id } = await send(alice, 'mine');
    const other = await legacyClientFor(app.url, { transport, user: 'mallory' });
    for (const call of [getTask(other, id), cancel(other, id), send(other, 'yours', { taskId: id })]) {
      expect(await errorName(call)).toBe('TaskNotFoundError');
    }
    expect((await getTask(await app.client({ transport, user: 'alice' }), id)).id).toBe(id);
  });

  test('that hangs up leaves no follower, and the turn alone', async () => {
    const { over, ...options } = patientAgent();
    const { app, old } = await start(options);
    const followers = watchFollowers(app);
    const sender = Recording.send(old, 'hello');
    const { id } = await sender.task();
    const subscriber = Recording.subscribe(old, id);
    await subscriber.task();
    await eventually(() => followers.length === 2);
    await subscriber.disconnect();
    await eventually(() => followers.filter(({ open }) => open).length === 1);
    over.resolve();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
  });

  test('registers receivers, which are told in the form of 0.3, and one of 1.0 in that of 1.0', async () => {
    const receiver = await PushReceiver.start();
    const { old, modern } = await start({ ...agent, cluster: pushing });
    const config = { tenant: '', taskId: '', token: 'secret', authentication: undefined };
    const configuration = {
      taskPushNotificationConfig: { ...config, id: 'sent', url: receiver.url('/sent') },
    };
    const { id: taskId } = await send(old, 'hello', { configuration });
    await old.createTaskPushNotificationConfig({ ...config, taskId, id: 'old', url: receiver.url('/old') });
    await modern.createTaskPushNotificationConfig({ ...config, taskId, id: 'modern', url: receiver.url('/modern') });
    const named = { tenant: '', taskId, id: 'old' };
    expect(await old.getTaskPushNotificationConfig(named)).toMatchObject({ url: receiver.url('/old') });
    const all = { tenant: '', taskId, pageSize: 0, pageToken: '' };
    const { configs } = await old.listTaskPushNotificationConfig(all);
    expect(configs.map(({ id }) => id).sort()).toEqual(['modern', 'old', 'sent']);
    await send(old, 'end', { taskId });
    const at = (path: string) => receiver.received.filter((it) => it.path === path);
    await receiver.until(() => ['/old', '/modern', '/sent'].every((path) => isLast(at(path).at(-1)?.body)));
    // 0.3 shows the whole task, without a frame about it; 1.0 shows the event, named.
    for (const path of ['/old', '/sent']) {
      const { body, headers } = at(path).at(-1)!;
      expect(body).toMatchObject({ kind: 'task', id: taskId, status: { state: 'completed' } });
      expect(headers).toMatchObject({ 'content-type': 'application/json', 'x-a2a-notification-token': 'secret' });
    }
    expect(at('/modern').at(-1)?.body).toMatchObject({ statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } } });
    await old.deleteTaskPushNotificationConfig(named);
    expect((await old.listTaskPushNotificationConfig(all)).configs).toHaveLength(2);
  });

  const isLast = (body: object | undefined): boolean => /"state":"(TASK_STATE_)?completed"/i.test(JSON.stringify(body));

  test('is refused by a replica that shuts down, which still serves the rest', async () => {
    const { over, ...options } = patientAgent();
    const { app, old } = await start({ ...options, cluster: { turns: { drainTimeoutMs: 20_000 } } });
    const sender = Recording.send(old, 'hello');
    const { id } = await sender.task();
    const closing = app.close();
    await expect(send(old, 'one more')).rejects.toThrow(/shutting down|503/);
    const { ended } = Recording.send(old, 'and another');
    expect(await ended).toMatchObject({ how: 'failed' });
    expect((await getTask(old, id)).id).toBe(id);
    over.resolve();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
    await within(closing, 5_000, 'the app closes when its turn has ended');
  });
});

describe('What version 0.3 is answered with', () => {
  const sending = (text: string): string =>
    JSON.stringify({
      jsonrpc: '2.0',
      id: 7,
      method: 'message/send',
      params: { message: { kind: 'message', messageId: text, role: 'user', parts: [{ kind: 'text', text }] } },
    });
  const restSending = (text: string): string =>
    JSON.stringify({ message: { messageId: text, role: 'ROLE_USER', content: [{ text }] } });
  const bare = { version: null, path: '/a2a/rest/v1/message:send' };

  test('is its own form, without a version in the request', async () => {
    const app = await fixture.start(both(agent));
    const answer = await post(app, 'JSONRPC', sending('hello'), { version: null });
    expect(JSON.parse(answer.text)).toMatchObject({
      jsonrpc: '2.0',
      id: 7,
      result: { kind: 'task', status: { state: 'input-required' } },
    });
    const rest = await post(app, 'HTTP+JSON', restSending('hello rest'), bare);
    expect([rest.status, JSON.parse(rest.text)]).toMatchObject([201, { task: { status: {} } }]);
    // A client of 1.0 is served at the same paths.
    for (const transport of TRANSPORTS) {
      const modern = await post(app, transport, messageBody(transport, { messageId: `1.0 ${transport}` }));
      expect([modern.status, modern.text]).toEqual([200, expect.stringContaining('TASK_STATE_INPUT_REQUIRED')]);
    }
  });

  test('has errors in it: of a body that is none, of one that is too large, and of a shutdown', async () => {
    const { over, ...options } = patientAgent();
    const app = await fixture.start(
      both({ ...options, cluster: { transports: { bodyLimitBytes: 1_000 }, turns: { drainTimeoutMs: 20_000 } } }),
    );
    const rest = async (body: string, version: string | null = null): Promise<unknown> => {
      const { status: code, text, headers } = await post(app, 'HTTP+JSON', body, { ...bare, version });
      return [code, headers.get('content-type')?.split(';')[0], JSON.parse(text)];
    };
    const json = 'application/json';
    expect(await rest('{')).toEqual([400, json, { code: -32_700, message: 'Invalid JSON payload.' }]);
    expect(await rest(restSending('x'.repeat(1_000)))).toEqual([
      413,
      json,
      { code: -32_600, message: expect.stringMatching(/larger than 1000 bytes/) as string },
    ]);
    expect(await rest(JSON.stringify({ message: { messageId: 'm', content: 1 } }))).toEqual([
      400,
      json,
      { code: -32_602, message: expect.any(String) as string },
    ]);
    // What some clients send where there is nothing to send.
    const path = '/a2a/rest/v1/tasks/none:cancel';
    const nothing = await post(app, 'HTTP+JSON', 'null', { version: null, path });
    expect([nothing.status, JSON.parse(nothing.text)]).toMatchObject([404, { code: -32_001 }]);
    expect((await post(app, 'JSONRPC', '{', { version: null })).code).toBe(-32_700);
    expect(await rest('{', '1.0')).toMatchObject([400, json, { error: { code: 400 } }]);
    const sender = Recording.send(await legacyClientFor(app.url), 'hello');
    await sender.task();
    const closing = app.close();
    expect(await rest(restSending('late'))).toEqual([
      503,
      json,
      { code: -32_603, message: expect.stringMatching(/shutting down/) as string },
    ]);
    for (const method of ['message/send', 'message/stream']) {
      const late = await post(app, 'JSONRPC', sending('late').replace('message/send', method), { version: null });
      expect([late.status, late.headers.get('retry-after'), JSON.parse(late.text)]).toEqual([
        503,
        '1',
        { jsonrpc: '2.0', id: 7, error: { code: -32_603, message: expect.any(String) as string } },
      ]);
    }
    over.resolve();
    await sender.finished();
    await closing;
  });

  test('over gRPC is never the answer of one version to a call of the other', async () => {
    const app = await fixture.start(both(agent));
    const raw = new RawGrpcClient(targetOf(app));
    for (const headers of [{}, { 'a2a-version': '0.3' }] as Record<string, string>[]) {
      const { code, details } = await raw.failure('getTask', { tenant: '', id: 'x' }, headers);
      expect([code, details]).toEqual([status.FAILED_PRECONDITION, expect.stringMatching(/'0\.3' .* is 1\.0's/)]);
    }
    const old = await legacyClientFor(app.url, { transport: 'GRPC' });
    const asking = (version: string) =>
      old.transport.getTask(
        { tenant: '', id: 'x', historyLength: undefined },
        { serviceParameters: { 'A2A-Version': version } },
      );
    expect(await errorName(asking('1.0'))).toBe('VersionNotSupportedError');
    expect(await errorName(asking('0.3.9'))).toBe('TaskNotFoundError');
    const stream = raw.stream('subscribeToTask', { tenant: '', id: 'x' }).resume();
    expect((await statusOf(stream)).code).toBe(status.NOT_FOUND);
  });
});
