import { cancel, send } from '../../tools/harness/client.js';
import { onCleanUp } from '../helpers/clean-up.js';
import { LOAD_MS, SLOW_MS, TestCluster, TIMES } from '../helpers/cluster.js';
import { Recording, stateName } from '../helpers/recording.js';
import { backends, LISTENING, SENT, terminateBackends } from '../helpers/sessions.js';
import { expectEnded, expectFollowed, readLog, recoveryOf, type TaskLog, userMessages } from '../helpers/task-log.js';
import { TcpProxy } from '../../tools/harness/tcp-proxy.js';
import { eventually } from '../../tools/harness/wait.js';

/** Longer than elsewhere: the tenth of it that a replica keeps as a margin is compared with a clock outside of it. */
const TTL_MS = 4_000;
/** With the byte that ends it: `READ COMMITTED` is another matter. */
const COMMIT = 'COMMIT\0';
const LISTEN = { sent: 'LISTEN a2a_' };

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

  it('O7 each way takes 50 ms longer: what runs behind it is followed all the same', async () => {
    const { a, b } = cluster;
    const { id } = await send(b.client, 'ask go on?');
    const watchers = [a, b].map(({ client }) => Recording.subscribe(client, id));
    await Promise.all(watchers.map((recording) => recording.task()));
    await proxy.delay(50);
    const sender = Recording.send(a.client, 'stream 30 10', { taskId: id });
    await sender.finished();
    const stored = await log(id);
    expectEnded(stored, 'COMPLETED');
    for (const recording of [sender, ...watchers]) expectFollowed(await recording.finished(), stored);
  });

  it('O13 the LISTEN connections are killed while events flow: nothing lost, nothing twice', async () => {
    const { a, all, database } = cluster;
    const { id } = await send(a.client, 'ask go on?');
    const watchers = all.map(({ client }) => Recording.subscribe(client, id));
    await Promise.all(watchers.map((recording) => recording.task()));
    const sender = Recording.send(a.client, 'stream 150 20', { taskId: id });
    let killed = 0;
    for (const at of [20, 40, 60, 80, 100]) {
      await sender.waitFor((_, index) => index >= at);
      killed += await terminateBackends(database, { statements: LISTENING });
    }
    await sender.finished();
    const stored = await log(id);
    expectEnded(stored, 'COMPLETED');
    for (const recording of [sender, ...watchers]) expectFollowed(await recording.finished(), stored);
    expect(killed).toBeGreaterThanOrEqual(all.length);
    // Every replica listens again.
    for (const { name } of all) await eventually(() => listener(name));
  });

  it('O13 the LISTEN connection falls silent: the poll brings what it does not, and it is replaced', async () => {
    const { a, b } = cluster;
    const before = await eventually(() => listener('A'));
    const { id } = await send(a.client, 'ask go on?');
    const watcher = Recording.subscribe(a.client, id);
    await watcher.task();
    const sender = Recording.send(b.client, 'stream 100 20', { taskId: id });
    await watcher.waitFor((_, index) => index >= 10);
    expect(await proxy.swallow('toClient', LISTEN)).toBe(1);
    const deaf = watcher.responses.length;
    await watcher.waitFor((_, index) => index > deaf + 20);
    expect(await listener('A')).toBe(before);

    await sender.finished();
    expectFollowed(await watcher.finished(TIMES.poll + LOAD_MS), await log(id));
    await eventually(async () => ![0, before].includes(await listener('A')), { timeoutMs: 5_000 + LOAD_MS });
  });

  it('O13 O53 all connections of A are killed again and again, as a failover would: it lives, nothing is lost', async () => {
    const { a, b, database } = cluster;
    const asked = await Promise.all(Array.from({ length: 6 }, () => send(b.client, 'ask go on?')));
    const watchers = asked.map(({ id }, at) => Recording.subscribe([a, b][at % 2]!.client, id));
    await Promise.all(watchers.map((recording) => recording.task()));
    // Turns on A, with enough pauses to open connections anew: some are killed in the moment in which they open.
    const senders = asked.map(({ id }) => Recording.send(a.client, 'stream 100 20', { taskId: id }));
    await Promise.all(senders.map((recording) => recording.task()));
    for (let round = 0; round < 12; round += 1) {
      const { length } = watchers[1]!.responses;
      await terminateBackends(database, { statements: [''], replica: 'A' });
      await watchers[1]!.waitFor((_, at) => at > length).catch(() => undefined);
    }
    for (const [at, { id }] of asked.entries()) {
      await watchers[at]!.finished();
      const stored = await log(id);
      // On a starved machine a lease may run out before a new connection has renewed it: then FAILED, and told as well.
      expectEnded(stored, stored.state === 'FAILED' ? 'FAILED' : 'COMPLETED');
      expectFollowed(watchers[at]!.responses, stored);
      expectFollowed(await senders[at]!.finished(), stored);
    }
    expect(stateName(await send(a.client, 'say I am still here'))).toBe('COMPLETED');
  });

  it('O17 a follow-up that was looked up before another turn and admitted after it sees what that one did', async () => {
    const { a, b } = cluster;
    const { id } = await send(b.client, 'stream 2 1\nask one?');
    const trap = await proxy.trap(SENT.admission);
    const late = send(a.client, 'stream 3 1', { taskId: id });
    await trap.caught;
    await send(b.client, 'stream 4 1\nask two?', { taskId: id });
    await proxy.heal();

    expect((await late).artifacts.map(({ parts }) => parts.length)).toEqual([2, 4, 3]);
    // The agent goes on counting its events where the task that it is given stands.
    expectEnded(await log(id), 'COMPLETED');
  });

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
    const watcher = Recording.send(cluster.b.client, 'ask go on?');
    const { id } = await watcher.task();
    await watcher.finished();
    const sender = Recording.send(d.client, `stream ${(3 * TTL_MS) / 100} 100`, { taskId: id });
    await sender.task();
    const { generation } = (await eventually(() => cluster.lease(id)))!;
    await proxy.partition();
    await new Promise((resolve) => setTimeout(resolve, TTL_MS * 0.75)); // the outage itself
    await proxy.heal();
    await eventually(async () => ((await msLeft(id)) ?? 0) > TTL_MS / 2, { timeoutMs: LOAD_MS });
    expect((await cluster.lease(id))!.generation).toBe(generation);
    await sender.finished();
    const stored = await log(id);
    expectEnded(stored, 'COMPLETED');
    expectFollowed(await sender.finished(), stored);
    await cluster.kill('D');
  });

  it('O34 a release of A that arrives after B has acquired leaves B’s lease alone', async () => {
    const { a, b, c } = cluster;
    const { id } = await send(b.client, 'ask go on?');
    const trap = await proxy.trap(SENT.release);
    const turn = Recording.send(a.client, 'auth', { taskId: id });
    await trap.caught;
    // A gives up waiting for the answer and releases once more; the first release is still on its way.
    await eventually(async () => !(await cluster.lease(id)), { timeoutMs: 2_000 + LOAD_MS });
    const next = Recording.send(b.client, 'work 60', { taskId: id });
    const held = await eventually(() => cluster.lease(id));
    expect(held?.pid).toBe(b.process.pid);

    await proxy.heal();
    await eventually(async () => ((await cluster.lease(id))?.renewedAt ?? 0) > held!.renewedAt);
    expect((await cluster.lease(id))?.generation).toBe(held!.generation);
    expect(stateName(await cancel(c.client, id))).toBe('CANCELED');
    const stored = await log(id);
    expectEnded(stored, 'CANCELED');
    for (const recording of [turn, next]) expectFollowed(await recording.finished(), stored);
  });

  it.each(['done', 'not done'])(
    'O53 the connection dies at a commit that is %s: one copy, the turn goes on',
    async (how) => {
      const { a, b } = cluster;
      const { id } = await send(b.client, 'ask go on?');
      const watcher = Recording.subscribe(b.client, id);
      await watcher.task();
      const sender = Recording.send(a.client, 'stream 3 500', { taskId: id });
      await sender.task();
      const trap = await proxy.trap(SENT.append);
      await trap.caught;
      const { version } = await log(id);
      if (how === 'done') {
        await proxy.swallow('toClient', { sent: SENT.append });
        await proxy.pass('toServer', { sent: SENT.append });
        await eventually(async () => (await log(id)).version > version);
      }
      expect(await proxy.cut({ sent: SENT.append })).toBeGreaterThan(0);

      const stored = await sender.finished().then(() => log(id));
      expectEnded(stored, 'COMPLETED');
      for (const recording of [sender, watcher]) expectFollowed(await recording.finished(), stored);
      expect(userMessages(stored, 'stream 3 500')).toBe(1);
    },
  );

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

  /** Process id of the backend that a replica listens on, 0 where it does not. */
  async function listener(replica: string): Promise<number> {
    return (await backends(cluster.database, { statements: LISTENING, replica }))[0] ?? 0;
  }

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
