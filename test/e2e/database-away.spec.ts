import { status } from '@grpc/grpc-js';
import { TaskState } from '@a2a-js/sdk';
import { VersionedTaskStore } from 'nestjs-a2a-cluster/stores';
import type { Logger } from 'typeorm';
import { errorOf, getTask, send, subscribe } from '../../tools/harness/client.js';
import { RawGrpcClient } from '../helpers/raw-grpc-client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { RefusingProxy } from '../helpers/refusing-proxy.js';
import { Deferred, eventually, within } from '../../tools/harness/wait.js';
import { type AgentApp, AgentAppFixture, type AgentAppOptions, cardWith, TRANSPORTS } from './agent-app.fixture.js';
import { completed, publishStatus, textOf, working } from './agent-events.js';
import { targetOf, withGrpc } from './grpc.fixture.js';
import { holdLock, releaseHolds } from '../integration/rows.fixture.js';
import { listTasks } from '../helpers/list-tasks.js';

const fixture = new AgentAppFixture();

afterEach(releaseHolds);

/** Reads are repeated for so long as one may take, which is no less than this, in ms. */
const BOUND_MS = 2_000;

const AWAY = 'The agent cannot reach its database at the moment; try again.';

/** Counts the statements that fail: all, or those with one parameter. */
class FailureCounter implements Logger {
  failed = 0;

  constructor(private readonly parameter?: unknown) {}

  logQueryError(_error: unknown, _query: string, parameters: readonly unknown[] = []): void {
    if (this.parameter === undefined || parameters.includes(this.parameter)) this.failed += 1;
  }

  logQuery = (): void => undefined;
  logQuerySlow = (): void => undefined;
  logSchemaBuild = (): void => undefined;
  logMigration = (): void => undefined;
  log = (): void => undefined;
}

/** Asks; works until it is let; or completes: as the message says. */
function agent(heartbeatIntervalMs = 20_000): { over: Deferred; options: AgentAppOptions } {
  const over = new Deferred();
  return {
    over,
    options: {
      execute: async (context, bus) => {
        const said = textOf(context.userMessage);
        if (said === 'ask') return publishStatus(bus, context, TaskState.TASK_STATE_INPUT_REQUIRED);
        working(bus, context);
        if (said === 'work') await over.promise;
        completed(bus, context);
      },
      cluster: {
        agentCard: cardWith({ pushNotifications: true }),
        push: { allow: ['127.0.0.0/8'] },
        leases: { heartbeatIntervalMs, ttlMs: 4 * heartbeatIntervalMs },
      },
    },
  };
}

describe.each(TRANSPORTS)('A database that is away for a moment, over %s', (transport) => {
  /** A task that waits, one that runs, and what is asked while the database is away: every answer is to be as ever. */
  async function asked(app: AgentApp) {
    const client = await app.client({ transport });
    const waiting = await send(client, 'ask');
    const sender = Recording.send(client, 'work');
    const { id: running } = await sender.task();
    const config = { tenant: '', taskId: waiting.id, url: 'http://127.0.0.1:9/', token: '', authentication: undefined };
    const calls = [
      async () => stateName(await getTask(client, waiting.id)),
      async () => (await listTasks(client, { contextId: waiting.contextId })).tasks.length,
      async () => {
        for await (const { payload } of subscribe(client, running)) return payload?.$case;
      },
      async () => (await client.createTaskPushNotificationConfig({ ...config, id: 'hook' })).id,
      async () =>
        (await client.listTaskPushNotificationConfig({ tenant: '', taskId: waiting.id } as never)).configs.length,
      async () => {
        await client.deleteTaskPushNotificationConfig({ tenant: '', taskId: waiting.id, id: 'none' });
        return 'deleted';
      },
      async () => stateName(await send(client, 'hello')),
    ];
    const answers = ['INPUT_REQUIRED', 1, 'task', 'hook', expect.any(Number), 'deleted', 'COMPLETED'];
    return { client, sender, calls, answers };
  }

  test('B8 connections that are refused: reads, subscribes, receivers and new messages wait, and are answered', async () => {
    const proxy = await RefusingProxy.start(fixture.database.url);
    const logger = new FailureCounter();
    const { over, options } = agent();
    const app = await fixture.start({ ...options, dataSource: { url: proxy.url, logger } });
    const { sender, calls, answers } = await asked(app);
    await proxy.refuse();
    const before = logger.failed;
    const answered = Promise.all(calls.map((call) => call()));
    answered.catch(() => undefined);
    // Each of them has failed by now, and most have twice.
    await eventually(() => logger.failed - before > 2 * calls.length);
    await proxy.accept();
    expect(await within(answered, 10_000, 'all are answered')).toEqual(answers);
    over.resolve();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
    await app.close();
  });

  test('B8 sessions that the server ends in the middle of it: the statements are sent again', async () => {
    const { over, options } = agent();
    const app = await fixture.start(options);
    const { sender, calls, answers } = await asked(app);
    const lock = await holdLock(fixture.database, 'LOCK a2a_tasks IN ACCESS EXCLUSIVE MODE');
    const blocked = `FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    const answered = Promise.all(calls.map((call) => call()));
    answered.catch(() => undefined);
    await eventually(async () => (await fixture.database.query(`SELECT ${blocked}`)).length >= calls.length);
    await fixture.database.query(`SELECT pg_terminate_backend(pid) ${blocked}`);
    await lock.release();
    expect(await within(answered, 10_000, 'all are answered')).toEqual(answers);
    over.resolve();
    await sender.finished();
  });
});

test('B8 a database that stays away: clients are told over every transport, once a call has had its time', async () => {
  const proxy = await RefusingProxy.start(fixture.database.url);
  const { options } = agent(BOUND_MS);
  const app = await fixture.start(withGrpc({ ...options, dataSource: { url: proxy.url } }));
  const clients = await Promise.all(TRANSPORTS.map((transport) => app.client({ transport })));
  const grpc = new RawGrpcClient(targetOf(app));
  const { id } = await send(clients[0]!, 'ask');
  await proxy.refuse();
  const from = performance.now();
  const told = clients.flatMap((client) => [errorOf(getTask(client, id)), errorOf(subscribe(client, id))]);
  const failure = grpc.failure('getTask', { tenant: '', id });
  for (const { message } of await Promise.all(told)) expect(message).toContain(AWAY);
  expect(await failure).toMatchObject({ code: status.UNAVAILABLE, details: AWAY });
  expect(performance.now() - from).toBeGreaterThan(BOUND_MS / 2);
  await proxy.accept();
  for (const client of clients) expect(stateName(await getTask(client, id))).toBe('INPUT_REQUIRED');
  expect((await grpc.failure('getTask', { tenant: '', id: 'any' })).code).toBe(status.NOT_FOUND);
  await app.close();
});

test('B8 nothing is repeated once the app closes', async () => {
  const TASK_NO = 4_711;
  const proxy = await RefusingProxy.start(fixture.database.url);
  const logger = new FailureCounter(TASK_NO);
  const { options } = agent();
  const app = await fixture.start({ ...options, dataSource: { url: proxy.url, logger } });
  const tasks = app.nest.get(VersionedTaskStore, { strict: false });
  await proxy.refuse();
  const read = tasks.findByNo(TASK_NO);
  read.catch(() => undefined);
  await eventually(() => logger.failed > 1);
  await app.close();
  await expect(within(read, 5_000, 'the read ends')).rejects.toThrow(
    /ECONNREFUSED|terminated unexpectedly|has closed its connections/,
  );
});
