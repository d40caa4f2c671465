import { once } from 'node:events';
import { getTask, send } from '../../tools/harness/client.js';
import { LOAD_MS, SLOW_MS, TestCluster } from '../helpers/cluster.js';
import { stateName } from '../helpers/recording.js';
import { UnreadGrpcCalls } from '../helpers/unread-grpc.js';
import { REPORTS_USAGE, usageOf } from '../helpers/usage-report.js';
import { eventually, within } from '../../tools/harness/wait.js';
import { SUBSCRIPTIONS, unreadHttp } from '../helpers/unread-http.js';

const MIB = 1024 * 1024;

/** What a process may have in its heap, where each reader used to hold twice the task: then 20 of them end it. */
const HEAP_MB = 192;

/** After this time a reader that takes nothing is cut off. */
const STALL_MS = 10_000;

/** A task of 5 MB that waits for its client. */
const MAKE_IT = 'stream 50 0 100000\nask go on?';

const HTTP_READERS = 100;
const GRPC_READERS = 400;

/** What all of them together may add to a replica: a few copies of the task, and little for each of the streams. */
const HELD_BYTES = 64 * MIB;

/** What two measurements may differ by. */
const LEFT_BYTES = 16 * MIB;

describe('Many readers that do not read', () => {
  let cluster: TestCluster;

  beforeAll(async () => {
    cluster = await TestCluster.start(
      {
        A2A_HEARTBEAT_MS: 20_000,
        A2A_TTL_MS: 60_000,
        A2A_GRPC_PORT: 0,
        A2A_STALL_MS: STALL_MS,
        NODE_OPTIONS: `--max-old-space-size=${HEAP_MB} ${REPORTS_USAGE.NODE_OPTIONS}`,
      },
      ['A'],
    );
  }, SLOW_MS);

  afterAll(() => cluster.stop());

  it(
    'O12 100 over HTTP and 400 over one gRPC connection hold one copy of a task of 5 MB, and those that stall are cut off',
    async () => {
      const { client, url, process } = cluster.a;
      const { id } = await send(client, MAKE_IT);
      const size = JSON.stringify(await getTask(client, id)).length;
      expect(size).toBeGreaterThan(5_000_000);
      const before = await usageOf(process);

      const unread = new UnreadGrpcCalls(await grpcTargetOf(url));
      const calls = Array.from({ length: GRPC_READERS }, () => unread.call('subscribeToTask', { tenant: '', id }));
      const sockets = Array.from({ length: HTTP_READERS }, () => unreadHttp(url, SUBSCRIPTIONS['HTTP+JSON'](id)));
      await Promise.all(sockets.map((socket) => once(socket, 'readable')));
      await Promise.all(calls.map(({ begun }) => begun));

      const beside = await usageOf(process);
      expect(beside.memoryBytes - before.memoryBytes).toBeLessThan(HELD_BYTES);
      expect(stateName(await getTask(client, id))).toBe('INPUT_REQUIRED');
      expect(stateName(await send(client, 'say hello'))).toBe('COMPLETED');

      const ends = await within(
        Promise.all(calls.map(({ cutOff }) => cutOff)),
        STALL_MS + 4 * LOAD_MS,
        'the gRPC calls are cut off',
      );
      expect(new Set(ends)).toEqual(new Set(['ENHANCE_YOUR_CALM']));
      await eventually(
        async () => {
          const after = await usageOf(process);
          expect(after.openResponses).toBe(0);
          expect(after.memoryBytes - before.memoryBytes).toBeLessThan(LEFT_BYTES);
          return true;
        },
        { timeoutMs: STALL_MS + 4 * LOAD_MS, intervalMs: 500 },
      );
      for (const socket of sockets) socket.destroy();
    },
    SLOW_MS,
  );
});

/** Where the replica serves gRPC, as its card says. */
async function grpcTargetOf(url: string): Promise<string> {
  const card = (await (
    await fetch(`${url}/.well-known/agent-card.json`, { headers: { 'A2A-Version': '1.0' } })
  ).json()) as { supportedInterfaces: { url: string; protocolBinding: string }[] };
  return card.supportedInterfaces.find(({ protocolBinding }) => protocolBinding === 'GRPC')!.url;
}
