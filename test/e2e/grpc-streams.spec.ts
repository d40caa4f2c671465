import { once } from 'node:events';
import { connect } from 'node:net';
import type { StreamResponse } from '@a2a-js/sdk';
import { type ClientReadableStream, status } from '@grpc/grpc-js';
import { getTask, send } from '../../tools/harness/client.js';
import { grpcClientFor } from '../../tools/harness/grpc-client.js';
import { RawGrpcClient, statusOf } from '../helpers/raw-grpc-client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { eventually, within } from '../../tools/harness/wait.js';
import { type AgentApp, AgentAppFixture, type AgentBehaviour } from './agent-app.fixture.js';
import { artifactOf, completed, inputRequired, publishArtifact, textPart } from './agent-events.js';
import { chunksOf, grpcRequest as request, targetOf, watchFollowers, withGrpc } from './grpc.fixture.js';
import { patientAgent } from './agents.js';

const fixture = new AgentAppFixture();

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
    const { over, ...options } = patientAgent();
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
    const { over, ...options } = patientAgent();
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
    const { over, ...options } = patientAgent();
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
    const options = patientAgent();
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
