import { once } from 'node:events';
import { type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { send } from '../../tools/harness/client.js';
import { LOAD_MS, SLOW_MS, TestCluster } from '../helpers/cluster.js';
import { Recording, summaryOf } from '../helpers/recording.js';
import { expectEnded, expectFollowed, readLog, type TaskLog } from '../helpers/task-log.js';
import { REPORTS_USAGE, type Usage, usageOf } from '../helpers/usage-report.js';
import { eventually } from '../../tools/harness/wait.js';
import { SUBSCRIPTIONS, unreadHttp } from '../helpers/unread-http.js';

const MIB = 1024 * 1024;

/**
 * 18 MiB in 10 s at least, of which a subscriber that does not read leaves all but what TCP buffers; and a short one,
 * after which a replica is as it will be after the long one.
 */
const STREAM = 'stream 600 17 32000';
const SHORT_STREAM = 'stream 200 2 32000';

const STREAM_MS = 10_000 + 4 * LOAD_MS;

/** What a replica may hold for all of its subscribers that do not keep up, and what two measurements may differ by. */
const HELD_BYTES = 20 * MIB;
const NOISE_BYTES = 4 * MIB;

/** From the commit of an event to its arrival at a subscriber that reads, in ms: few on an idle machine. */
const LAG_MS = 5_000;

/** A socket that nobody reads takes no more than this. */
const UNASKED_BYTES = 256 * 1024;

/** Pause between two reads, of 64 KiB at most, of a subscriber that reads slowly. */
const SLOW_READ_MS = 200;

/** Subscribers that do not keep up, at the replica of the turn and at another, over both transports. */
describe('Slow readers', () => {
  let cluster: TestCluster;

  beforeAll(async () => {
    // Streaming is hard work: on a busy machine a short lease may run out meanwhile, which is another test's subject.
    cluster = await TestCluster.start({ ...REPORTS_USAGE, A2A_HEARTBEAT_MS: 2_000, A2A_TTL_MS: 30_000 }, ['A', 'B']);
  }, SLOW_MS);

  afterAll(() => cluster.stop());

  const usages = (): Promise<Usage[]> => Promise.all([cluster.a, cluster.b].map(({ process }) => usageOf(process)));

  it(
    'O12 subscribers that read slowly or not at all cost no memory, delay nobody, and leave nothing',
    async () => {
      const { a, b } = cluster;
      const { id: first } = await send(b.client, 'ask go on?');
      await followedTurn(first, SHORT_STREAM);
      const without = await usages();

      const { id } = await send(b.client, 'ask go on?');
      const open = (...transports: (keyof typeof SUBSCRIPTIONS)[]): Promise<Socket[]> =>
        Promise.all([a, b].flatMap(({ url }) => transports.map((transport) => openStream(url, id, transport))));
      const [unread, slow] = await Promise.all([open('JSONRPC', 'JSONRPC', 'HTTP+JSON', 'HTTP+JSON'), open('JSONRPC')]);
      slow.forEach((socket) => void readSlowly(socket));
      const generation = await followedTurn(id, STREAM);
      expect(await lastGeneration()).toBe(generation);

      // The turn has ended, everybody else has seen all of it, and they still stand where they stood.
      for (const { bytesRead } of unread) expect(bytesRead).toBeLessThan(UNASKED_BYTES);
      for (const { bytesRead } of slow) expect(bytesRead).toBeGreaterThan(UNASKED_BYTES);
      await eventually(async () => {
        const beside = await usages();
        for (const bytes of growth(without, beside)) expect(bytes).toBeLessThan(HELD_BYTES);
        expect(beside.map(({ openResponses }) => openResponses)).toEqual([5, 5]);
        return true;
      });

      const sockets = [...unread, ...slow];
      const ports = sockets.map(({ localPort }) => localPort);
      for (const socket of sockets) socket.destroy();
      await eventually(async () => {
        const after = await usages();
        expect(after.map(({ openResponses }) => openResponses)).toEqual([0, 0]);
        expect(after.flatMap((usage) => usage.ports).filter((port) => ports.includes(port))).toEqual([]);
        for (const bytes of growth(without, after)) expect(bytes).toBeLessThan(NOISE_BYTES);
        return true;
      });
    },
    2 * SLOW_MS,
  );

  /**
   * The agent at A streams to a task that waits, and a subscriber at each replica sees all of it in time.
   *
   * @returns the generation of the lease that A had meanwhile
   */
  async function followedTurn(taskId: string, text: string): Promise<string> {
    const { a, all } = cluster;
    const watchers = all.map(({ client }) => Recording.subscribe(client, taskId));
    await Promise.all(watchers.map((recording) => recording.task()));
    const arrivals = watchers.map(arrivalsOf);
    const sender = Recording.send(a.client, text, { taskId });
    await sender.waitFor((response) => summaryOf(response).startsWith('artifact'));
    const lease = await cluster.lease(taskId);
    expect(lease?.pid).toBe(a.process.pid);

    await Promise.all([sender, ...watchers].map((recording) => recording.finished(STREAM_MS)));
    const log = await readLog(cluster.database, taskId);
    expectEnded(log, 'COMPLETED');
    for (const [at, { responses }] of watchers.entries()) {
      expectFollowed(responses, log);
      expect(Math.max(...lags(await arrivals[at]!, log))).toBeLessThan(LAG_MS);
    }
    return lease!.generation;
  }

  /** The last generation that was drawn: a claim would have drawn another one. */
  async function lastGeneration(): Promise<string | undefined> {
    const [row] = await cluster.database.query<{ last: string }>(
      "SELECT pg_sequence_last_value(pg_get_serial_sequence('a2a_task_leases', 'generation')) AS last",
    );
    return row?.last;
  }
});

/** Subscribes over a socket of which nothing is read but the head of the answer: TCP holds back what follows. */
async function openStream(url: string, taskId: string, transport: keyof typeof SUBSCRIPTIONS): Promise<Socket> {
  const socket = unreadHttp(url, SUBSCRIPTIONS[transport](taskId));
  await once(socket, 'readable');
  expect(String(socket.read())).toMatch(/^HTTP\/1\.1 200 [^]*text\/event-stream/);
  return socket;
}

/** Takes a piece now and then, until the socket is destroyed. */
async function readSlowly(socket: Socket): Promise<void> {
  try {
    for await (const _ of socket) await pause(SLOW_READ_MS);
  } catch {
    // Destroyed: by the test, or else the replica will have counted one stream less.
  }
}

/** When each response arrives, once the stream has ended. */
async function arrivalsOf(recording: Recording): Promise<number[]> {
  const times: number[] = [];
  const found = recording.waitFor((_, at) => {
    times[at] = Date.now();
    return false;
  }, STREAM_MS);
  await found.catch(() => undefined); // it looks for nothing
  return times;
}

/** How long each event took from its commit to its arrival, in ms: the database and the test have one clock. */
function lags([, ...arrivals]: readonly number[], { entries }: TaskLog): number[] {
  const delivered = entries.filter(({ response }) => response).slice(-arrivals.length);
  return delivered.map(({ at }, index) => arrivals[index]! - at.getTime());
}

/** By how much the memory of each replica has grown. */
const growth = (before: readonly Usage[], after: readonly Usage[]): number[] =>
  after.map(({ memoryBytes }, at) => memoryBytes - before[at]!.memoryBytes);
