import { setTimeout as pause } from 'node:timers/promises';
import { cancel, send } from '../../tools/harness/client.js';
import { onCleanUp } from '../helpers/clean-up.js';
import { LOAD_MS, SLOW_MS, TestCluster, TIMES } from '../helpers/cluster.js';
import { Recording, stateName } from '../helpers/recording.js';
import { SENT } from '../helpers/sessions.js';
import { expectEnded, expectFollowed, readLog, recoveryOf, type TaskLog, userMessages } from '../helpers/task-log.js';
import { TcpProxy } from '../../tools/harness/tcp-proxy.js';
import { eventually } from '../../tools/harness/wait.js';

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

  it('O33 cut off beyond the TTL, then back: aborted before anyone may claim, late events dropped, FAILED stands', async () => {
    const { a, b, c } = cluster;
    // It says nothing for a minute, so that no commit is there to notice: only the deadline of its lease is.
    const sender = Recording.send(a.client, 'stream 1 60000');
    const { id } = await sender.task();
    const watchers = [b, c].map(({ client }) => Recording.subscribe(client, id));
    await Promise.all(watchers.map((recording) => recording.task()));
    await eventually(async () => (await log(id)).version === 2);

    await proxy.partition();
    await a.process.waitForLine(new RegExp(`^task ${id}: signal aborted: A2A_LEASE_LOST$`), TTL_MS + LOAD_MS);
    expect(await msLeft(id)).toBeGreaterThan(0);

    for (const recording of watchers) await recording.finished(TTL_MS + TIMES.sweep + LOAD_MS);
    const stored = await log(id);
    expectEnded(stored, 'FAILED');
    expect(recoveryOf(stored).lastHolder).toContain(`:${a.process.pid}:`);
    await a.process.waitForLine(new RegExp(`^task ${id}: late event refused: A2A_LEASE_LOST$`));
    await proxy.heal();

    for (const recording of [sender, ...watchers]) expectFollowed(await recording.finished(), stored);
    expect(stateName(await send(a.client, 'say I am back'))).toBe('COMPLETED');
    expect(await log(id)).toEqual(stored);
  });

  it('C20 a network that is silent for three quarters of the TTL: the turn goes on, and nobody claims it', async () => {
    // The default ratio. At 0.6 TTL the renewals of old came too late, at 0.8 those of now do not.
    const d = await cluster.add('D', { DATABASE_URL: proxy.url, A2A_HEARTBEAT_MS: TTL_MS / 4 });
    const sender = Recording.send(d.client, 'work 60');
    const { id } = await sender.task();
    const { generation } = (await eventually(() => cluster.lease(id)))!;
    await proxy.partition();
    await pause(TTL_MS * 0.75); // the outage itself
    await proxy.heal();
    await eventually(async () => ((await msLeft(id)) ?? 0) > TTL_MS / 2, { timeoutMs: LOAD_MS });
    expect((await cluster.lease(id))!.generation).toBe(generation);
    const { version } = await log(id);
    await eventually(async () => (await log(id)).version > version);
    expect(stateName(await cancel(d.client, id))).toBe('CANCELED');
    const stored = await log(id);
    expectEnded(stored, 'CANCELED');
    expectFollowed(await sender.finished(), stored);
    await cluster.kill('D');
  });

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

  /** How long the lease still holds, by the database's clock. */
  async function msLeft(taskId: string): Promise<number | undefined> {
    const [row] = await cluster.database.query<{ left: number }>(
      `SELECT extract(epoch FROM greatest(l.expires_at, r.expires_at) - clock_timestamp())::float8 * 1000 AS left
         FROM a2a_task_leases AS l JOIN a2a_tasks USING (task_no) LEFT JOIN a2a_replicas AS r USING (holder)
        WHERE task_id = $1`,
      [taskId],
    );
    return row?.left;
  }
});
