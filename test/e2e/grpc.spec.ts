import { once } from 'node:events';
import { connect } from 'node:net';
import type { StreamResponse } from '@a2a-js/sdk';
import { ForbiddenException, UnauthorizedException } from '@nestjs/common';
import { type ClientReadableStream, status } from '@grpc/grpc-js';
import { A2AGrpcServer } from 'nestjs-a2a-cluster';
import { cancel, collect, errorName, errorOf, getTask, send, stream, subscribe } from '../helpers/client.js';
import { grpcClientFor, RawGrpcClient, statusOf } from '../helpers/grpc-client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Deferred, eventually, within } from '../helpers/wait.js';
import { type AgentApp, AgentAppFixture, type AgentBehaviour } from './agent-app.fixture.js';
import { artifactOf, completed, inputRequired, publishArtifact, textOf, textPart, working } from './agent-events.js';
import { chunksOf, targetOf, watchFollowers, withGrpc } from './grpc.fixture.js';
import { cardOf } from './raw-requests.js';

const fixture = new AgentAppFixture();

const agent: AgentBehaviour = {
  execute: (context, bus) =>
    textOf(context.userMessage) === 'end' ? completed(bus, context) : inputRequired(bus, context),
};

const CHUNKS = 300;
const CHUNK = 'x'.repeat(32_000);

/** Asks first, then streams far more than a connection holds. */
const streamer: AgentBehaviour = {
  execute: async (context, bus) => {
    if (!context.task) return inputRequired(bus, context);
    for (let at = 0; at < CHUNKS; at += 1) {
      publishArtifact(bus, context, artifactOf('big', textPart(`${at} ${CHUNK}`)), at > 0);
      if (at % 20 === 0) await context.turn.flush();
    }
    completed(bus, context);
  },
};

/** Works until it is let. */
function patientAgent(): { over: Deferred; options: AgentBehaviour } {
  const over = new Deferred();
  return {
    over,
    options: {
      execute: async (context, bus) => {
        working(bus, context);
        await over.promise;
        completed(bus, context);
      },
    },
  };
}

const messageOf = (text: string, messageId = text): object => ({
  ...{ tenant: '', configuration: undefined, metadata: undefined },
  message: { ...{ messageId, taskId: '', contextId: '', role: 1, parts: [textPart(text)] }, extensions: [] },
});
const request = (text: string): object => {
  const { message, ...rest } = messageOf(text) as { message: object };
  return { ...rest, message: { ...message, referenceTaskIds: [], metadata: undefined } };
};

const isListening = async (port: number): Promise<boolean> => {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
};

const portOf = (app: AgentApp): number => Number(targetOf(app).split(':')[1]);

describe('gRPC', () => {
  test('is off unless it is asked for', async () => {
    const app = await fixture.start(agent);
    expect(app.nest.get(A2AGrpcServer, { strict: false })).toBeNull();
    expect((await cardOf(app)).supportedInterfaces.map(({ protocolBinding }) => protocolBinding)).toEqual([
      ...['JSONRPC', 'HTTP+JSON'],
    ]);
  });

  test('stands in the card, at the port that was found or where the option says', async () => {
    const app = await fixture.start(withGrpc(agent));
    const interfaceOf = async (it: AgentApp): Promise<unknown> => (await cardOf(it)).supportedInterfaces.at(-1);
    expect(await interfaceOf(app)).toMatchObject({
      ...{ url: targetOf(app), protocolBinding: 'GRPC', protocolVersion: '1.0' },
    });
    const behind = await fixture.start(withGrpc(agent, { publicUrl: 'agent.example.com:443' }));
    expect(await interfaceOf(behind)).toMatchObject({ url: 'agent.example.com:443', protocolBinding: 'GRPC' });
  });

  test('serves every operation, the other transports beside it', async () => {
    const capabilities = { streaming: true, pushNotifications: true, extendedAgentCard: true, extensions: [] };
    const agentCard = { name: 'n', description: 'd', version: '1', capabilities };
    const app = await fixture.start(
      withGrpc({
        ...agent,
        cluster: { agentCard, push: { allow: ['127.0.0.0/8'] }, extendedAgentCard: { name: 'more' } as never },
      }),
    );
    const client = await app.client({ transport: 'GRPC', user: 'alice' });
    const { id: taskId } = await send(client, 'hello');
    const subscriber = Recording.subscribe(client, taskId);
    await subscriber.task();
    const answers = await collect(stream(client, 'end', { taskId }));
    expect(answers.map(summaryOf)).toEqual(['task INPUT_REQUIRED', 'status COMPLETED']);
    expect((await subscriber.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
    const other = await send(client, 'hello');
    expect(stateName(await cancel(client, other.id))).toBe('CANCELED');
    const listed = await client.listTasks({
      ...{ tenant: '', contextId: '', status: 0, pageToken: '', pageSize: undefined, historyLength: undefined },
      ...{ statusTimestampAfter: undefined, includeArtifacts: undefined },
    });
    expect(listed.tasks.map(({ id }) => id)).toEqual([other.id, taskId]);
    const config = { tenant: '', taskId, id: 'c', url: 'http://127.0.0.1/', token: '', authentication: undefined };
    expect(await client.createTaskPushNotificationConfig(config)).toMatchObject({ id: 'c' });
    const named = { tenant: '', taskId, id: 'c' };
    expect(await client.getTaskPushNotificationConfig(named)).toMatchObject({ url: config.url });
    await client.deleteTaskPushNotificationConfig(named);
    const all = { tenant: '', taskId, pageSize: 0, pageToken: '' };
    expect((await client.listTaskPushNotificationConfig(all)).configs).toEqual([]);
    const card = await client.transport.getExtendedAgentCard(
      { tenant: '' },
      { serviceParameters: { 'A2A-Version': '1.0' } },
    );
    expect(card.name).toBe('more');
    expect(stateName(await getTask(await app.client({ user: 'alice' }), taskId))).toBe('COMPLETED');
  });

  test('a task that is sent at A is followed, seen and canceled at B', async () => {
    const { options } = patientAgent();
    const aborted = new Deferred<unknown>();
    const [a, b] = await fixture.startTwo(
      withGrpc({
        execute: async (context, bus) => {
          context.turn.signal.addEventListener('abort', () => aborted.resolve(context.turn.signal.reason));
          await Promise.race([options.execute?.(context, bus), aborted.promise]);
        },
      }),
    );
    const sender = Recording.send(await a.client({ transport: 'GRPC' }), 'hello');
    const { id } = await sender.task();
    const there = await b.client({ transport: 'GRPC' });
    const subscriber = Recording.subscribe(there, id);
    await subscriber.task();
    expect(stateName(await cancel(there, id))).toBe('CANCELED');
    for (const recording of [sender, subscriber]) {
      expect((await recording.finished()).map(summaryOf).at(-1)).toBe('status CANCELED');
    }
    expect(await aborted.promise).toMatchObject({ code: 'TASK_CANCELED' });
    expect(stateName(await getTask(there, id))).toBe('CANCELED');
  });
});

describe('Callers over gRPC', () => {
  test("do not find each other's tasks, and are the same as over HTTP", async () => {
    const app = await fixture.start(withGrpc(agent));
    const alice = await app.client({ transport: 'GRPC', user: 'alice' });
    const { id } = await send(alice, 'mine');
    for (const other of [await app.client({ transport: 'GRPC', user: 'mallory' }), await app.client()]) {
      const calls = [getTask(other, id), cancel(other, id), send(other, 'yours', { taskId: id })];
      for (const call of [...calls, subscribe(other, id)]) expect(await errorName(call)).toBe('TaskNotFoundError');
    }
    expect(stateName(await getTask(await app.client({ user: 'alice' }), id))).toBe('INPUT_REQUIRED');
    expect(stateName(await cancel(alice, id))).toBe('CANCELED');
  });

  test('who are refused get the status, and nothing of what else went wrong', async () => {
    const errors = [new UnauthorizedException('no token'), new ForbiddenException('not you'), new Error('secret')];
    const app = await fixture.start(
      withGrpc(agent, { userBuilder: ({ metadata }: never) => Promise.reject(errors[which(metadata)]!) }),
    );
    const raw = new RawGrpcClient(targetOf(app));
    const failure = async (at: number): Promise<unknown> => {
      const { code, details } = await raw.failure(
        'getTask',
        { tenant: '', id: 'x' },
        { 'a2a-version': '1.0', which: String(at) },
      );
      return [code, details];
    };
    expect(await failure(0)).toEqual([status.UNAUTHENTICATED, 'no token']);
    expect(await failure(1)).toEqual([status.PERMISSION_DENIED, 'not you']);
    expect(await failure(2)).toEqual([status.INTERNAL, 'Internal error; the agent has logged it.']);
    expect(fixture.logger.errors.join()).toContain('secret');
  });

  const which = (metadata: { get(name: string): unknown[] }): number => Number(metadata.get('which')[0]);
});

describe('Errors over gRPC', () => {
  test('have the status of their kind, and their reason', async () => {
    const app = await fixture.start(withGrpc(agent));
    const client = await app.client({ transport: 'GRPC' });
    const error = await errorOf(getTask(client, 'none'));
    expect([error.name, error.reason]).toEqual(['TaskNotFoundError', 'TASK_NOT_FOUND']);
    const raw = new RawGrpcClient(targetOf(app));
    expect((await raw.failure('getTask', { tenant: '', id: 'none' })).code).toBe(status.NOT_FOUND);
    expect((await raw.failure('getTask', { tenant: '', id: '' })).code).toBe(status.INVALID_ARGUMENT);
    const { id } = await send(client, 'end');
    expect((await raw.failure('cancelTask', { tenant: '', id })).code).toBe(status.FAILED_PRECONDITION);
    expect(await errorName(subscribe(client, id))).toBe('UnsupportedOperationError');
    // What is quoted in the message must not break its header.
    expect((await raw.failure('getTask', { tenant: '', id: '👍'.repeat(200) })).details).toMatch(
      /longer than 512 bytes/,
    );
  });

  test('tell an extension that is required, and whoever knows it is served', async () => {
    const extensions = [{ uri: 'https://example.com/ext', required: true, description: '', params: undefined }];
    const agentCard = {
      ...{ name: 'n', description: 'd', version: '1' },
      capabilities: { extensions, streaming: true },
    };
    const requested = new Deferred<readonly string[] | undefined>();
    const app = await fixture.start(
      withGrpc({
        execute: (context, bus) => {
          requested.resolve(context.context?.requestedExtensions);
          completed(bus, context);
        },
        cluster: { agentCard },
      }),
    );
    const client = await app.client({ transport: 'GRPC' });
    expect(await errorName(send(client, 'hello'))).toBe('ExtensionSupportRequiredError');
    const serviceParameters = { 'A2A-Extensions': 'https://example.com/ext,https://example.com/unknown' };
    await client.sendMessage(request('hello') as never, { serviceParameters });
    expect(await requested.promise).toEqual(['https://example.com/ext']);
  });

  test('tell a version that is not served, and one that is missing', async () => {
    const app = await fixture.start(withGrpc(agent));
    const raw = new RawGrpcClient(targetOf(app));
    for (const headers of [{}, { 'a2a-version': '0.3' }, { 'a2a-version': '2.0' }] as Record<string, string>[]) {
      const { code, details } = await raw.failure('getTask', { tenant: '', id: 'x' }, headers);
      expect([code, details]).toEqual([status.FAILED_PRECONDITION, expect.stringContaining('is not supported')]);
    }
  });

  test('do not come of the patch number of a version', async () => {
    const app = await fixture.start(withGrpc({ ...agent, cluster: { legacyCompat: true } }));
    const raw = new RawGrpcClient(targetOf(app));
    const failure = async (version: string): Promise<number> =>
      (await raw.failure('getTask', { tenant: '', id: 'x' }, { 'a2a-version': version })).code;
    expect(await failure('1.0.3')).toBe(status.NOT_FOUND);
    for (const version of ['1.1.0', '1.0.x', '0.3.0']) expect(await failure(version)).toBe(status.FAILED_PRECONDITION);
  });

  test('of our own are logged, and not told', async () => {
    const app = await fixture.start(
      withGrpc({ ...agent, cluster: { cardSignature: () => Promise.reject(new Error('the key is 1234')) } }),
    );
    const { details } = await new RawGrpcClient(targetOf(app)).failure('getTask', { tenant: '', id: 'x' });
    expect(details).toBe('Internal error; the agent has logged it.');
    expect(fixture.logger.errors.join()).toContain('1234');
  });

  test('a message that is nested too deep for anybody behind it is malformed', async () => {
    const app = await fixture.start(withGrpc({ execute: (context, bus) => completed(bus, context) }));
    const nested = (levels: number): object => ({ ...request('deep'), metadata: nestedObject(levels) });
    const { code, details } = await new RawGrpcClient(targetOf(app)).failure('sendMessage', nested(500));
    expect([code, details]).toEqual([status.INVALID_ARGUMENT, expect.stringContaining('nested deeper than')]);
    const answer = new RawGrpcClient(targetOf(app)).stream('sendStreamingMessage', nested(100)).resume();
    expect((await statusOf(answer)).code).toBe(status.OK);
  });

  const nestedObject = (levels: number): object => {
    let value = {};
    for (let level = 0; level < levels; level += 1) value = { value };
    return value;
  };

  test('a message above the limit is refused, one below it taken, above the usual 4 MiB too', async () => {
    const app = await fixture.start(
      withGrpc({
        execute: (context, bus) => completed(bus, context),
        cluster: { leases: { heartbeatIntervalMs: 15_000, ttlMs: 60_000 }, transports: { bodyLimitBytes: 6_000_000 } },
      }),
    );
    const raw = new RawGrpcClient(targetOf(app));
    const refused = await raw.failure('sendMessage', request('x'.repeat(6_000_001)));
    expect([refused.code, refused.details]).toEqual([
      status.RESOURCE_EXHAUSTED,
      expect.stringContaining('larger than max'),
    ]);
    const client = await app.client({ transport: 'GRPC' });
    const configuration = { historyLength: 0 };
    expect(stateName(await send(client, 'x'.repeat(5_000_000), { configuration }))).toBe('COMPLETED');
  });
});

/** A subscription of which 16 messages are taken, since gRPC's client begins with that, and no more. */
async function unreadStream(app: AgentApp, id: string): Promise<ClientReadableStream<unknown>> {
  const unread = new RawGrpcClient(targetOf(app)).stream('subscribeToTask', { tenant: '', id });
  await once(unread, 'readable');
  return unread;
}

describe('A gRPC stream', () => {
  test('is written at the pace of a reader that does not read, and is whole when it does', async () => {
    const app = await fixture.start(withGrpc(streamer));
    const client = await app.client({ transport: 'GRPC' });
    const { id: taskId } = await send(client, 'hello');
    const followers = watchFollowers(app);
    const unread = await unreadStream(app, taskId);
    await eventually(() => followers.length === 1);
    const reader = Recording.subscribe(client, taskId);
    await eventually(() => followers.length === 2);
    await send(await app.client(), 'go on', { taskId }); // a gRPC client takes no answer above 4 MiB
    expect(chunksOf(await reader.finished(20_000))).toHaveLength(CHUNKS);
    // Everybody else is done. The one that does not read stands where its connection is full.
    expect(followers[1]!.taken).toBeGreaterThan(CHUNKS);
    expect(followers[0]!.taken).toBeLessThan(CHUNKS / 5);
    expect(followers[0]!.open).toBe(1);
    const responses: StreamResponse[] = [];
    unread.on('data', (response: StreamResponse) => responses.push(response));
    expect((await statusOf(unread)).code).toBe(status.OK);
    expect(chunksOf(responses)).toEqual(chunksOf(reader.responses));
    expect(followers[0]!.open).toBe(0);
  });

  const goodbyes: [string, number, (call: ClientReadableStream<unknown>) => void][] = [
    ['that its client cancels', Infinity, (call) => call.resume().cancel()],
    ['that its client cancels without having read', Infinity, (call) => call.cancel()],
    ['whose deadline passes', 1_500, (call) => call.resume()],
  ];

  test.each(goodbyes)('%s leaves no follower, and the turn alone', async (_how, timeoutMs, leave) => {
    const { over, options } = patientAgent();
    const app = await fixture.start(withGrpc(options));
    const sender = Recording.send(await app.client({ transport: 'GRPC' }), 'hello');
    const { id } = await sender.task();
    const followers = watchFollowers(app);
    const call = new RawGrpcClient(targetOf(app)).stream(
      'subscribeToTask',
      { tenant: '', id },
      { deadline: Date.now() + timeoutMs },
    );
    const end = statusOf(call);
    await eventually(() => followers.length === 1);
    expect(followers[0]!.open).toBe(1);
    leave(call);
    expect([status.CANCELLED, status.DEADLINE_EXCEEDED]).toContain((await end).code);
    await eventually(() => followers.every(({ open }) => open === 0));
    over.resolve();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
  });
});

describe('A replica that shuts down', () => {
  test('refuses messages over gRPC as UNAVAILABLE, and serves the rest until it is done', async () => {
    const { over, options } = patientAgent();
    const app = await fixture.start(withGrpc({ ...options, cluster: { turns: { drainTimeoutMs: 20_000 } } }));
    const client = await app.client({ transport: 'GRPC' });
    const sender = Recording.send(client, 'hello');
    const { id } = await sender.task();
    const port = portOf(app);
    const raw = new RawGrpcClient(targetOf(app));
    const closing = app.close();
    const refused = await raw.failure('sendMessage', request('one more'));
    expect([refused.code, refused.details]).toEqual([status.UNAVAILABLE, expect.stringContaining('shutting down')]);
    const streamed = raw.stream('sendStreamingMessage', request('and another')).resume();
    expect((await statusOf(streamed)).code).toBe(status.UNAVAILABLE);
    expect(stateName(await getTask(client, id))).toBe('WORKING');
    over.resolve();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
    await within(closing, 5_000, 'the app closes when its turn has ended');
    expect(await isListening(port)).toBe(false);
  });

  test('ends the streams of subscribers to tasks that run elsewhere, of those that do not read too', async () => {
    const { over, options } = patientAgent();
    const [a, b] = await fixture.startTwo(
      withGrpc({ execute: (context, bus) => (context.task ? streamer : options).execute?.(context, bus) }),
    );
    const sender = Recording.send(await a.client({ transport: 'GRPC' }), 'hello');
    const { id } = await sender.task();
    const followers = watchFollowers(b);
    const subscriber = Recording.subscribe(await b.client({ transport: 'GRPC' }), id);
    await subscriber.task();
    const unread = await unreadStream(b, id);
    await eventually(() => followers.length === 2);
    const port = portOf(b);
    await within(b.close(), 5_000, 'the app closes');
    expect((await subscriber.finished()).map(summaryOf)).toEqual(['task WORKING']);
    expect(followers.map(({ open }) => open)).toEqual([0, 0]);
    expect(await isListening(port)).toBe(false);
    unread.resume();
    over.resolve();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
  });

  test('cuts off a reader whose connection is full', async () => {
    const app = await fixture.start(withGrpc(streamer));
    const client = await app.client();
    const { id: taskId } = await send(client, 'hello');
    const followers = watchFollowers(app);
    const unread = await unreadStream(app, taskId);
    await eventually(() => followers.length === 1);
    await send(client, 'go on', { taskId });
    const end = statusOf(unread);
    await within(app.close(), 5_000, 'the app closes');
    expect(followers.map(({ open }) => open)).toEqual([0]);
    unread.resume();
    expect((await end).code).not.toBe(status.OK);
  });

  test('answers a blocking send over gRPC with how its turn ended', async () => {
    const { options } = patientAgent();
    const app = await fixture.start(withGrpc(options));
    const client = await grpcClientFor(app.url);
    const followers = watchFollowers(app);
    const answer = send(client, 'hello');
    answer.catch(() => undefined);
    await eventually(async () => (await fixture.database.query('SELECT 1 FROM a2a_task_leases')).length === 1);
    await app.close();
    expect(stateName(await answer)).toBe('FAILED');
    expect(followers.every(({ open }) => open === 0)).toBe(true);
  });
});
