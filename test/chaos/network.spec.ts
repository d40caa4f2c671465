import { cancel, send } from '../../tools/harness/client.js';
import { onCleanUp } from '../helpers/clean-up.js';
import { LOAD_MS, SLOW_MS, TestCluster, TIMES } from '../helpers/cluster.js';
import { Recording, stateName } from '../helpers/recording.js';
import { SENT } from '../helpers/sessions.js';
import { expectEnded, expectFollowed, readLog, recoveryOf, type TaskLog, userMessages } from '../helpers/task-log.js';
import { TcpProxy } from '../../tools/harness/tcp-proxy.js';

/** Longer than elsewhere: the tenth of it that a replica keeps as a margin is compared with a clock outside of it. */
const TTL_MS = 4_000;
/** With the byte that ends it: `READ COMMITTED` is another matter. */
const COMMIT = 'COMMIT\0';

/** A reaches the database through a proxy that plays the network; B and C reach it directly. */
describe('Replicas and their network', () => {
  let cluster: TestCluster;
  let proxy: TcpProxy;

  beforeAll(async () => {
    cluster = await TestCluster.start({ A2A_TTL_MS: TTL_MS }, ['B', 'C']);
    proxy = await TcpProxy.start(cluster.database.url);
    onCleanUp(() => proxy.stop());
    await cluster.add('A', { DATABASE_URL: proxy.url });
  }, SLOW_MS);

  afterAll(async () => {
    await cluster.stop();
    await proxy.stop();
  });

  afterEach(() => proxy.heal());

  const log = (taskId: string) => readLog(cluster.database, taskId);

  it.each([
    ['before it has begun', 'BEGIN ISOLATION LEVEL'],
    ['between its statements', SENT.decision],
    ['before its COMMIT', COMMIT],
  ])('O60 A freezes in an admission, %s: others go on within the bound, it leaves no trace', async (_when, text) => {
    const { a, b } = cluster;
    const { id } = await send(b.client, 'ask go on?');
    const trap = await proxy.trap(text);
    const late = send(a.client, 'say from A', { taskId: id });
    late.catch(() => undefined);
    await trap.caught;
    await a.process.freeze();
    try {
      expect(stateName(await send(b.client, 'say from B', { taskId: id }))).toBe('COMPLETED');
    } finally {
      await proxy.heal();
      await a.process.thaw();
    }
    await expect(late).rejects.toThrow();
    const stored = await log(id);
    expectEnded(stored, 'COMPLETED');
    expect(['say from A', 'say from B'].map((said) => userMessages(stored, said))).toEqual([0, 1]);
  });

  it.each([
    ['with a commit of events on its way', SENT.append, 'stream 3 300'],
    ['in a transaction that has locked its lease', COMMIT, 'work 60'],
  ])('O56 O60 A freezes %s: FAILED within the bound, what arrives late is refused', async (_when, text, script) => {
    const { a, b, c } = cluster;
    const { id } = await send(b.client, 'ask go on?');
    const watcher = Recording.subscribe(c.client, id);
    await watcher.task();
    const sender = Recording.send(a.client, `${script}\nwork 60`, { taskId: id });
    await sender.waitFor((_, at) => at === 1);
    const trap = await proxy.trap(text);
    const canceled = text === COMMIT ? cancel(a.client, id).catch(() => undefined) : undefined;
    await trap.caught;
    await a.process.freeze();
    let stored: TaskLog;
    try {
      await watcher.finished(TTL_MS + TIMES.sweep + LOAD_MS);
      stored = await log(id);
      expectEnded(stored, 'FAILED');
      expect(recoveryOf(stored).lastHolder).toContain(`:${a.process.pid}:`);
      await proxy.heal();
    } finally {
      await a.process.thaw();
    }
    await a.process.waitForLine(new RegExp(`^task ${id}: late event refused: A2A_LEASE_LOST$`));
    await canceled;
    for (const recording of [sender, watcher]) expectFollowed(await recording.finished(), stored);
    expect(await log(id)).toEqual(stored);
  });
});
