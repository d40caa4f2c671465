import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { getDataSourceToken } from '@nestjs/typeorm';
import { ReplicaShutdownError } from 'nestjs-a2a-cluster';
import { AbstractLogger, type DataSource } from 'typeorm';
import { getTask, send } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { eventually, within } from '../../tools/harness/wait.js';
import { type AgentApp, AgentAppFixture, type AgentAppOptions, TRANSPORTS } from './agent-app.fixture.js';
import { completed, textOf } from './agent-events.js';
import { heldAgent } from './agents.js';

const fixture = new AgentAppFixture();

/** Notes every query, and when the DataSource began to close. */
class QueryLog extends AbstractLogger {
  readonly queries: string[] = [];
  queriesAtClose: number | undefined;

  override logQuery(query: string): void {
    this.queries.push(query);
  }

  override logQueryError(error: string | Error, query: string): void {
    this.queries.push(`${String(error)}: ${query}`);
  }

  watch(app: AgentApp, name: string): void {
    const dataSource = app.nest.get<DataSource>(getDataSourceToken(name), { strict: false });
    const destroy = dataSource.destroy.bind(dataSource);
    dataSource.destroy = async () => {
      this.queriesAtClose = this.queries.length;
      await destroy();
    };
  }

  protected override writeLog(): void {
    // only the above is of interest
  }
}

const stateOf = async (taskId: string): Promise<string | undefined> =>
  (await fixture.database.query<{ state: string }>('SELECT state FROM a2a_tasks WHERE task_id = $1', [taskId]))[0]
    ?.state;

describe.each(['first', 'last'] as const)('A2AClusterModule imported %s, before or after TypeOrmModule', (position) => {
  test.each(['default', 'agents'])(
    'O45 a shutdown mid-turn writes FAILED before the DataSource %s closes, and nothing queries it after',
    async (name) => {
      const { started, release, ...agent } = heldAgent();
      const log = new QueryLog();
      const app = await fixture.start({
        ...agent,
        position,
        dataSource: { name, logger: log, logging: true },
        cluster: { dataSource: name, turns: { drainTimeoutMs: 100 } },
      });
      log.watch(app, name);
      const sender = Recording.send(await app.client(), 'hello');
      const { id } = await sender.task();
      await started.promise;
      await app.close();
      expect(await stateOf(id)).toBe('TASK_STATE_FAILED');
      expect(await fixture.database.query('SELECT * FROM a2a_task_leases')).toEqual([]);
      const queries = log.queries.length;
      expect(log.queriesAtClose).toBe(queries);
      release.resolve();
      await new Promise((resolve) => setImmediate(resolve));
      expect(log.queries).toHaveLength(queries);
      expect(log.queries.filter((line) => line.startsWith('Error'))).toEqual([]);
      expect(
        fixture.logger.warnings.filter((line) =>
          /closed|ended|not connected|not established|after calling/i.test(line),
        ),
      ).toEqual([]);
    },
  );
});

describe.each(TRANSPORTS)('A replica that shuts down, over %s', (transport) => {
  test('O45 ends a turn that outlasts the drain time FAILED, and tells the sender and a subscriber elsewhere', async () => {
    const { started, release, aborted, ...agent } = heldAgent();
    const [a, b] = await fixture.startTwo({ ...agent, cluster: { turns: { drainTimeoutMs: 200 } } });
    const sender = Recording.send(await a.client({ transport }), 'hello');
    const { id } = await sender.task();
    await started.promise;
    const subscriber = Recording.subscribe(await b.client({ transport }), id);
    await subscriber.task();
    await a.close();
    expect(await aborted.promise).toBeInstanceOf(ReplicaShutdownError);
    for (const recording of [sender, subscriber]) {
      expect((await recording.finished()).map(summaryOf).at(-1)).toBe('status FAILED');
    }
    const task = await getTask(await b.client({ transport }), id);
    expect(textOf(task.status?.message)).toMatch(/shutting down/);
    release.resolve();
  });

  test('O45 lets a turn end by itself while it drains, and renews its lease meanwhile', async () => {
    const { started, release, ...agent } = heldAgent();
    const app = await fixture.start({
      ...agent,
      cluster: { leases: { heartbeatIntervalMs: 50, ttlMs: 3_000 }, turns: { drainTimeoutMs: 20_000 } },
    });
    const sender = Recording.send(await app.client({ transport }), 'hello');
    await started.promise;
    const closing = app.close();
    const renewed = async (): Promise<string> =>
      (await fixture.database.query<{ at: string }>('SELECT max(renewed_at)::text AS at FROM a2a_replicas'))[0]!.at;
    const before = await renewed();
    await eventually(async () => (await renewed()) !== before);
    release.resolve();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
    await within(closing, 5_000, 'the app closes when its turn has ended');
  });

  test('ends the streams of subscribers to tasks that run elsewhere', async () => {
    const { started, release, ...agent } = heldAgent();
    const [a, b] = await fixture.startTwo(agent);
    const sender = Recording.send(await a.client({ transport }), 'hello');
    const { id } = await sender.task();
    await started.promise;
    const subscriber = Recording.subscribe(await b.client({ transport }), id);
    await subscriber.task();
    await b.close();
    await within(subscriber.ended, 5_000, "the subscriber's stream ends");
    release.resolve();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
  });

  test('answers new messages 503 with Retry-After, in the form of the transport, and still serves the rest', async () => {
    const { started, release, ...agent } = heldAgent();
    const app = await fixture.start({ ...agent, cluster: { turns: { drainTimeoutMs: 20_000 } } });
    const client = await app.client({ transport });
    const sender = Recording.send(client, 'hello');
    const { id } = await sender.task();
    await started.promise;
    const closing = app.close();
    for (const streaming of [false, true]) {
      const response = await postMessage(app, transport, streaming);
      expect(response.status).toBe(503);
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      const body = (await response.json()) as Record<string, unknown>;
      if (transport === 'JSONRPC') {
        expect(body).toMatchObject({ jsonrpc: '2.0', id: 7, error: { code: -32603 } });
      } else {
        expect(response.headers.get('content-type')).toContain('application/json');
        expect(body).toMatchObject({
          error: { code: 503, message: expect.stringContaining('shutting down') as string },
        });
      }
    }
    expect(stateName(await getTask(client, id))).toBe('WORKING');
    const subscriber = Recording.subscribe(client, id);
    expect(stateName(await subscriber.task())).toBe('WORKING');
    expect((await fetch(`${app.url}/.well-known/agent-card.json`)).status).toBe(200);
    release.resolve();
    expect((await subscriber.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
    await closing;
    const [count] = await fixture.database.query('SELECT count(*)::integer AS n FROM a2a_tasks WHERE context_id = $1', [
      'draining',
    ]);
    expect(count).toEqual({ n: 0 });
  });
});

test('a client that keeps its connection in use is told to leave it, and does not keep the app from closing', async () => {
  const { started, release, ...agent } = heldAgent();
  const app = await fixture.start({ ...agent, cluster: { turns: { drainTimeoutMs: 20_000 } } });
  const sender = Recording.send(await app.client(), 'hello');
  await started.promise;
  const connections = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = async (): Promise<IncomingMessage> => {
    const [response] = (await once(get(`${app.url}/a2a/rest/tasks`, { agent: connections }), 'response')) as [
      IncomingMessage,
    ];
    await once(response.resume(), 'end');
    return response;
  };
  expect((await ask()).headers.connection).toBe('keep-alive');
  const closing = app.close();
  await eventually(async () => (await ask()).headers.connection === 'close');
  release.resolve();
  // One that was waiting to be accepted when the server closed is reset; the next one is refused.
  const again = (error: NodeJS.ErrnoException): void => {
    if (error.code !== 'ECONNRESET') throw error;
  };
  const refused = (async () => {
    for (;;) await ask().catch(again);
  })();
  await expect(refused).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  await within(closing, 5_000, 'the app closes');
  expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status COMPLETED');
  connections.destroy();
});

test('an app closed twice, or before it served, closes in peace', async () => {
  const app = await fixture.start({ execute: (context, bus) => completed(bus, context) } satisfies AgentAppOptions);
  expect(stateName(await send(await app.client(), 'hello'))).toBe('COMPLETED');
  await Promise.all([app.close(), app.close()]);
});

function postMessage(app: AgentApp, transport: (typeof TRANSPORTS)[number], streaming: boolean): Promise<Response> {
  const message = { messageId: 'm', contextId: 'draining', role: 'ROLE_USER', parts: [{ text: 'more' }] };
  const call = {
    jsonrpc: '2.0',
    id: 7,
    method: streaming ? 'SendStreamingMessage' : 'SendMessage',
    params: { message },
  };
  const path = transport === 'JSONRPC' ? 'jsonrpc' : `rest/message:${streaming ? 'stream' : 'send'}`;
  return fetch(`${app.url}/a2a/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify(transport === 'JSONRPC' ? call : { message }),
  });
}
