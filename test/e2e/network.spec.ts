import type { Client } from '@a2a-js/sdk/client';
import { LedgerModule } from '../../tools/scripted-agent/ledger/ledger.module.js';
import { ScriptedAgent } from '../../tools/scripted-agent/scripted-agent.executor.js';
import { send } from '../../tools/harness/client.js';
import { TcpProxy } from '../../tools/harness/tcp-proxy.js';
import { eventually } from '../../tools/harness/wait.js';
import { onCleanUp } from '../helpers/clean-up.js';
import { backendsOf, LOAD_MS, SLOW_MS } from '../helpers/cluster.js';
import { Recording, stateName } from '../helpers/recording.js';
import { backends, LISTENING, SENT, terminateBackends } from '../helpers/sessions.js';
import { expectEnded, expectFollowed, readLog } from '../helpers/task-log.js';
import { type AgentApp, AgentAppFixture } from './agent-app.fixture.js';

const fixture = new AgentAppFixture({ for: 'file' });

const POLL_MS = 250;

/** A reaches the database through a proxy that plays the network; B reaches it directly. */
describe('Replicas and their network', () => {
  let proxy: TcpProxy;
  const apps: AgentApp[] = [];
  let a: Client;
  let b: Client;

  /** A replica whose connections bear its name. */
  async function start(name: string, url: string): Promise<AgentApp> {
    const app = await fixture.start({
      cluster: {
        executor: ScriptedAgent,
        imports: [LedgerModule.forRoot(fixture.database.url)],
        leases: { heartbeatIntervalMs: 500, ttlMs: 4_000 },
        sweeper: { intervalMs: 500 },
        streams: { pollIntervalMs: POLL_MS },
      },
      dataSource: { url, applicationName: backendsOf(name) },
    });
    apps.push(app);
    return app;
  }

  beforeAll(async () => {
    proxy = await TcpProxy.start(fixture.database.url);
    onCleanUp(() => proxy.stop());
    a = await (await start('A', proxy.url)).client();
    b = await (await start('B', fixture.database.url)).client({ transport: 'HTTP+JSON' });
  }, SLOW_MS);

  afterEach(() => proxy.heal());

  afterAll(async () => {
    await Promise.all(apps.map((app) => app.close()));
    await proxy.stop();
  });

  const log = (taskId: string) => readLog(fixture.database, taskId);

  /** A task that waits, and who follows it at each replica. */
  async function followedTask(): Promise<{ id: string; watchers: Recording[] }> {
    const { id } = await send(b, 'ask go on?');
    const watchers = [a, b].map((client) => Recording.subscribe(client, id));
    await Promise.all(watchers.map((recording) => recording.task()));
    return { id, watchers };
  }

  it('O7 each way takes 50 ms longer: what runs behind it is followed all the same', async () => {
    const { id, watchers } = await followedTask();
    await proxy.delay(50);
    const sender = Recording.send(a, 'stream 30 10', { taskId: id });
    await sender.finished();
    const stored = await log(id);
    expectEnded(stored, 'COMPLETED');
    for (const recording of [sender, ...watchers]) expectFollowed(await recording.finished(), stored);
  });

  it('O13 the LISTEN connection falls silent: the poll brings what it does not, and it is replaced', async () => {
    const before = await eventually(() => listener('A'));
    const { id, watchers } = await followedTask();
    const [watcher] = watchers;
    const sender = Recording.send(b, 'stream 100 20', { taskId: id });
    await watcher!.waitFor((_, index) => index >= 10);
    expect(await proxy.swallow('toClient', { sent: 'LISTEN a2a_' })).toBe(1);
    const deaf = watcher!.responses.length;
    await watcher!.waitFor((_, index) => index > deaf + 20);
    expect(await listener('A')).toBe(before);

    await sender.finished();
    expectFollowed(await watcher!.finished(POLL_MS + LOAD_MS), await log(id));
    await eventually(async () => ![0, before].includes(await listener('A')), { timeoutMs: 5_000 + LOAD_MS });
  });

  it('O13 O53 all connections of A are killed again and again, as a failover would: it lives, nothing is lost', async () => {
    const tasks = await Promise.all(Array.from({ length: 6 }, () => followedTask()));
    // Turns on A, with enough pauses to open connections anew: some are killed in the moment in which they open.
    const senders = tasks.map(({ id }) => Recording.send(a, 'stream 100 20', { taskId: id }));
    await Promise.all(senders.map((recording) => recording.task()));
    const [, atB] = tasks[0]!.watchers;
    for (let round = 0; round < 12; round += 1) {
      const { length } = atB!.responses;
      await terminateBackends(fixture.database, { statements: [''], replica: 'A' });
      await atB!.waitFor((_, at) => at > length).catch(() => undefined);
    }
    for (const [at, { id, watchers }] of tasks.entries()) {
      await Promise.all(watchers.map((watcher) => watcher.finished()));
      const stored = await log(id);
      // On a starved machine a lease may run out before a new connection has renewed it: then FAILED, and told as well.
      expectEnded(stored, stored.state === 'FAILED' ? 'FAILED' : 'COMPLETED');
      for (const recording of [senders[at]!, ...watchers]) expectFollowed(await recording.finished(), stored);
    }
    expect(stateName(await send(a, 'say I am still here'))).toBe('COMPLETED');
  });

  it('O17 a follow-up that was looked up before another turn and admitted after it sees what that one did', async () => {
    const { id } = await send(b, 'stream 2 1\nask one?');
    const trap = await proxy.trap(SENT.admission);
    const late = send(a, 'stream 3 1', { taskId: id });
    await trap.caught;
    await send(b, 'stream 4 1\nask two?', { taskId: id });
    await proxy.heal();

    expect((await late).artifacts.map(({ parts }) => parts.length)).toEqual([2, 4, 3]);
    // The agent goes on counting its events where the task that it is given stands.
    expectEnded(await log(id), 'COMPLETED');
  });

  /** Process id of the backend that a replica listens on, 0 where it does not. */
  async function listener(replica: string): Promise<number> {
    return (await backends(fixture.database, { statements: LISTENING, replica }))[0] ?? 0;
  }
});
