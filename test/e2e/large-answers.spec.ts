import { once } from 'node:events';
import { type Socket } from 'node:net';
import type { Message, StreamResponse, Task } from '@a2a-js/sdk';
import { AgentEvent } from '@a2a-js/sdk/server';
import type { ServiceError } from '@grpc/grpc-js';
import { jest } from '@jest/globals';
import { VersionedTaskStore } from 'nestjs-a2a-cluster/stores';
import { UnsentBytes } from '../../libs/a2a-cluster/src/transports/flow/unsent-bytes.js';
import { cancel, collect, errorOf, getTask, send, stream, subscribe } from '../../tools/harness/client.js';
import { legacyClientFor } from '../../tools/harness/legacy-client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { type UnreadGrpcCall, UnreadGrpcCalls } from '../helpers/unread-grpc.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import {
  type AgentApp,
  AgentAppFixture,
  type AgentBehaviour,
  ALL_TRANSPORTS,
  type ClusterOptions,
} from './agent-app.fixture.js';
import {
  agentMessage,
  artifactOf,
  completed,
  inputRequired,
  publishArtifact,
  textOf,
  textPart,
} from './agent-events.js';
import { grpcRequest, targetOf, withGrpc } from './grpc.fixture.js';
import { type Method } from '../helpers/raw-grpc-client.js';
import { LISTING, listTasks } from '../helpers/list-tasks.js';
import { SUBSCRIPTIONS, unreadHttp } from '../helpers/unread-http.js';

const fixture = new AgentAppFixture();

const KB = 1024;
const MIB = 1024 * KB;

/** Unlike `x` repeated, what no transport could shorten; each a little different. */
const textOfSize = (bytes: number, from = 0): string =>
  Array.from({ length: Math.ceil(bytes / 8) }, (_, at) => (at + from).toString(36).padStart(6, 'ü')).join(',');

/** `end` ends a task, `stream N` adds N chunks of 32 kB before that. Anything else, such as `make N`, adds an artifact of N bytes and asks for more. */
const agent: AgentBehaviour = {
  execute: async (context, bus) => {
    const [command, size] = textOf(context.userMessage).split(' ');
    for (let at = 0; command === 'stream' && at < Number(size); at += 1) {
      publishArtifact(bus, context, artifactOf('stream', textPart(textOfSize(32 * KB, at))), at > 0);
      await context.turn.flush();
    }
    if (command === 'stream') return completed(bus, context);
    if (command === 'end') return completed(bus, context);
    const artifact = artifactOf(command!, textPart(textOfSize(Number(size))), textPart('and more'));
    publishArtifact(bus, context, artifact);
    inputRequired(bus, context, 'go on?');
  },
};

const unsentOf = (app: AgentApp): UnsentBytes => app.nest.get(UnsentBytes, { strict: false });

const nothingHeld = (app: AgentApp): Promise<unknown> =>
  eventually(
    () => {
      const { held, readers } = unsentOf(app);
      return held === 0 && readers === 0;
    },
    { timeoutMs: 20_000 },
  );

/** So many have something to take. A task of 6 MB is read first, on a machine that may be busy. */
const readersAre = (app: AgentApp, count: number): Promise<unknown> =>
  eventually(() => unsentOf(app).readers === count, { timeoutMs: 20_000 });

/** On a busy machine a short lease may run out while something large is stored, which is another test's subject. */
const leases = { heartbeatIntervalMs: 20_000, ttlMs: 60_000 };

const start = (cluster: ClusterOptions = {}, behaviour: AgentBehaviour = agent): Promise<AgentApp> =>
  fixture.start(withGrpc({ ...behaviour, cluster: { leases, ...cluster } }));

/** A task as the store has it. */
async function storedTask(app: AgentApp, id: string): Promise<Task> {
  const scope = { tenant: '', owner: 'unknown', taskId: id };
  return (await app.nest.get(VersionedTaskStore, { strict: false }).find(scope))!.task;
}

/** How often a large task is read: not before so many calls have looked for it. */
function countReads(app: AgentApp, after: number): { count: number } {
  const tasks = app.nest.get(VersionedTaskStore, { strict: false });
  const [findUpTo, readText] = [tasks.findUpTo.bind(tasks), tasks.readText.bind(tasks)];
  const reads = { count: 0 };
  const all = new Deferred();
  let looks = 0;
  jest.spyOn(tasks, 'findUpTo').mockImplementation(async (...args) => {
    const found = await findUpTo(...args);
    looks += 1;
    if (looks === after) setImmediate(all.resolve);
    return found;
  });
  jest.spyOn(tasks, 'readText').mockImplementation(async (taskNo) => {
    await all.promise;
    reads.count += 1;
    return readText(taskNo);
  });
  return reads;
}

const subscription = (app: AgentApp, id: string): Socket => unreadHttp(app.url, SUBSCRIPTIONS['HTTP+JSON'](id));

afterEach(() => jest.restoreAllMocks());

describe.each(ALL_TRANSPORTS)('A large task over %s', (transport) => {
  test('is answered as it is, by every method, and what was held for it is given back', async () => {
    const app = await start();
    const client = await app.client({ transport });
    const made = await send(client, `make ${MIB}`, { messageId: `first over ${transport}` });
    const task = await storedTask(app, made.id);
    expect(made).toEqual(task);
    expect(await getTask(client, made.id)).toEqual(task);
    expect(await getTask(client, made.id, 1)).toEqual({ ...task, history: task.history.slice(-1) });
    // A repetition of the message is answered with the task too.
    expect(await send(client, `make ${MIB}`, { messageId: `first over ${transport}` })).toEqual(task);
    const listed = await listTasks(client, { includeArtifacts: true });
    expect(listed.tasks[0]).toEqual(task);

    const subscriber = Recording.subscribe(client, made.id);
    expect(await subscriber.task()).toEqual(task);
    await send(client, 'end', { taskId: made.id });
    await subscriber.finished();
    expect((await errorOf(cancel(client, made.id))).name).toBe('TaskNotCancelableError');
    const canceled = await send(client, `make ${MIB}`);
    await cancel(client, canceled.id);
    expect(await cancel(client, canceled.id)).toEqual(await storedTask(app, canceled.id));
    await nothingHeld(app);
  });

  test('comes whole with a streamed answer, and so does a large event', async () => {
    const app = await start();
    const client = await app.client({ transport });
    const { id } = await send(client, 'make 10');
    const follower = Recording.subscribe(client, id);
    await follower.task();
    const responses: StreamResponse[] = [];
    for await (const response of stream(client, `large ${MIB}`, { taskId: id })) responses.push(response);
    const { payload } = responses.find((response) => response.payload?.$case === 'artifactUpdate')!;
    const content = payload?.$case === 'artifactUpdate' && payload.value.artifact?.parts[0]?.content;
    expect(content).toEqual({ $case: 'text', value: textOfSize(MIB) });
    await follower.waitFor((response) => response.payload?.$case === 'statusUpdate' && follower.responses.length > 2);
    expect(follower.responses.slice(1).map((response) => response.payload)).toEqual(
      responses.filter((response) => response.payload?.$case !== 'task').map((response) => response.payload),
    );
    const again: StreamResponse[] = [];
    for await (const response of stream(client, 'end', { taskId: id })) again.push(response);
    const first = again[0]?.payload;
    expect(first?.$case === 'task' && first.value.artifacts).toEqual((await storedTask(app, id)).artifacts);
    await nothingHeld(app);
  });

  test('is read once for 50 who ask for it at the same time', async () => {
    const app = await start();
    const client = await app.client({ transport });
    const { id } = await send(client, `make ${MIB}`);
    const reads = countReads(app, 50);
    const subscribers = Array.from({ length: 25 }, () => Recording.subscribe(client, id));
    const asked = Array.from({ length: 25 }, () => getTask(client, id));
    const tasks = await Promise.all([...subscribers.map((subscriber) => subscriber.task()), ...asked]);
    const task = await storedTask(app, id);
    for (const one of tasks) expect(one).toEqual(task);
    expect(reads.count).toBe(1);
    await Promise.all(subscribers.map((subscriber) => subscriber.disconnect()));
    await nothingHeld(app);
  });

  test('as a message of an agent without a task is answered too', async () => {
    const says: AgentBehaviour = {
      execute: (context, bus) =>
        bus.publish(AgentEvent.message(agentMessage(context, '', [textPart(textOfSize(MIB))]))),
    };
    const app = await start({}, says);
    const answer = (await (
      await app.client({ transport })
    ).sendMessage({
      tenant: '',
      configuration: undefined,
      metadata: undefined,
      message: { ...agentMessage({ taskId: '', contextId: '' }, 'hello'), role: 1 },
    })) as Message;
    expect(textOf(answer)).toBe(textOfSize(MIB));
    await nothingHeld(app);
  });
});

test.each(ALL_TRANSPORTS)('A client of version 0.3 gets a large task over %s as it is', async (transport) => {
  const app = await start({ legacyCompat: true });
  const { id } = await send(await app.client(), `make ${MIB}`);
  const client = await legacyClientFor(app.url, { transport });
  const task = await storedTask(app, id);
  const texts = ({ artifacts }: Task) => artifacts[0]?.parts.map(({ content }) => content);
  expect(texts(await getTask(client, id))).toEqual(texts(task));
  const follower = Recording.subscribe(client, id);
  expect(texts(await follower.task())).toEqual(texts(task));
  await send(await app.client(), 'end', { taskId: id });
  await follower.finished();
  await nothingHeld(app);
});

test.each(ALL_TRANSPORTS)(
  'A large answer for which there is no room in time is refused over %s, and a small one is not',
  async (transport) => {
    const app = await start();
    const client = await app.client({ transport });
    const [large, small] = [await send(client, `make ${MIB}`), await send(client, 'make 10')];
    const unsent = unsentOf(app);
    const room = await unsent.reserve(64 * MIB);
    Object.assign(unsent, { roomTimeoutMs: 50 });
    for (const call of [getTask(client, large.id), collect(subscribe(client, large.id))]) {
      const error = (await call.then(
        () => undefined,
        (thrown: unknown) => thrown,
      )) as ServiceError;
      const told = [error.message, error.cause].map(String).join();
      expect(told).toContain('The answer is large, and this replica holds as much as it may (67108864 bytes)');
      if (transport === 'GRPC') expect(told).toContain('RESOURCE_EXHAUSTED');
    }
    expect((await getTask(client, small.id)).id).toBe(small.id);
    room.release();
    expect((await getTask(client, large.id)).id).toBe(large.id);
    await nothingHeld(app);
  },
);

test('A large answer has the head of a small one', async () => {
  const app = await start();
  const client = await app.client();
  const heads = [];
  for (const size of [10, MIB]) {
    const { id } = await send(client, `make ${size}`);
    for (const accept of ['application/json', 'application/a2a+json']) {
      const response = await fetch(`${app.url}/a2a/rest/tasks/${id}`, { headers: { 'A2A-Version': '1.0', accept } });
      expect(Number(response.headers.get('content-length'))).toBe((await response.arrayBuffer()).byteLength);
      heads.push([response.status, response.headers.get('content-type'), response.headers.get('vary')]);
    }
    const call = { jsonrpc: '2.0', id: 'ü', method: 'GetTask', params: { id } };
    const response = await fetch(`${app.url}/a2a/jsonrpc`, {
      method: 'POST',
      headers: { 'A2A-Version': '1.0', 'content-type': 'application/json' },
      body: JSON.stringify(call),
    });
    heads.push([response.status, response.headers.get('content-type'), ((await response.json()) as { id: string }).id]);
  }
  expect(heads.slice(3)).toEqual(heads.slice(0, 3));
});

describe('Clients that do not read', () => {
  /** Whoever takes nothing is cut off soon: not before all are there, however busy the machine is. */
  const loseThePatience = (app: AgentApp): void => void Object.assign(unsentOf(app), { stallTimeoutMs: 100 });

  const SIZE = 6 * MIB;

  test('are cut off over HTTP after the stall time-out, whatever they have asked for', async () => {
    const app = await start();
    const { id } = await send(await app.client(), `make ${SIZE}`);
    const sockets = [
      subscription(app, id),
      unreadHttp(app.url, SUBSCRIPTIONS.JSONRPC(id)),
      unreadHttp(app.url, { path: `/a2a/rest/tasks/${id}` }),
      unreadHttp(app.url, { path: '/a2a/rest/tasks?includeArtifacts=true' }),
    ];
    await readersAre(app, sockets.length);
    loseThePatience(app);
    const closed = sockets.map((socket) => once(socket, 'close'));
    await nothingHeld(app);
    for (const socket of sockets) socket.resume();
    await Promise.all(closed);
  });

  test('are cut off over gRPC after the stall time-out, whatever they have asked for', async () => {
    const app = await start();
    const client = await app.client();
    const [one, other] = [await send(client, `make ${SIZE}`), await send(client, `make ${SIZE}`)];
    const unreadCall = (method: Method, request: object): UnreadGrpcCall =>
      new UnreadGrpcCalls(targetOf(app)).call(method, request);
    const calls = [
      unreadCall('subscribeToTask', { tenant: '', id: one.id }),
      unreadCall('getTask', { tenant: '', id: one.id }),
      unreadCall('listTasks', { ...LISTING, includeArtifacts: true }),
      unreadCall('sendStreamingMessage', followUp(other.id)),
    ];
    await readersAre(app, calls.length);
    expect(unsentOf(app).held).toBeGreaterThan(SIZE);
    loseThePatience(app);
    // @grpc/grpc-js makes RESOURCE_EXHAUSTED of it.
    for (const { cutOff } of calls) expect(await cutOff).toBe('ENHANCE_YOUR_CALM');
    await nothingHeld(app);
  });

  test('make room for others who wait for it', async () => {
    const app = await start({ streams: { stallTimeoutMs: 1_500, maxUnsentBytes: SIZE + MIB } });
    const client = await app.client();
    const [one, other] = [await send(client, `make ${SIZE}`), await send(client, `make ${SIZE}`)];
    const socket = subscription(app, one.id);
    await readersAre(app, 1);
    expect(await getTask(client, other.id)).toEqual(await storedTask(app, other.id));
    await once(socket.resume(), 'close');
    await nothingHeld(app);
  });

  test('behind a stream of small events are counted, and cut off where they hold too much together', async () => {
    const app = await start({ streams: { maxUnsentBytes: 1 } });
    const client = await app.client();
    const { id } = await send(client, 'make 10');
    const connections = Array.from({ length: 3 }, () => new UnreadGrpcCalls(targetOf(app)));
    const calls = connections.map((connection) => connection.call('subscribeToTask', { tenant: '', id }));
    await Promise.all(calls.map(({ begun }) => begun));
    await send(client, 'stream 30', { taskId: id, configuration: { returnImmediately: true } });
    // One of them may hold what it wants, as a single answer may.
    await Promise.race(
      [0, 1, 2].map((left) => Promise.all(calls.filter((_, at) => at !== left).map((it) => it.cutOff))),
    );
    await eventually(() => {
      const { held, readers } = unsentOf(app);
      return readers === 1 && held > 0 && held < 2 * MIB;
    });
    await eventually(async () => stateName(await getTask(client, id)) === 'COMPLETED');
    for (const connection of connections) connection.close();
    await nothingHeld(app);
  });

  test('leave nothing behind at shutdown', async () => {
    const app = await start();
    const { id } = await send(await app.client(), `make ${SIZE}`);
    subscription(app, id);
    new UnreadGrpcCalls(targetOf(app)).call('subscribeToTask', { tenant: '', id });
    const unsent = unsentOf(app);
    await eventually(() => unsent.readers >= 1);
    await app.close();
    await eventually(() => unsent.held === 0 && unsent.readers === 0);
  });
});

/** A message to a task that waits, whose streamed answer begins with the task. */
function followUp(taskId: string): object {
  const request = grpcRequest('end') as { message: object };
  return { ...request, message: { ...request.message, taskId } };
}
