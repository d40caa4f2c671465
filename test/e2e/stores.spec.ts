import type { Task } from '@a2a-js/sdk';
import { ExpressAdapter } from '@nestjs/platform-express';
import { type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { A2AClusterModule, AbandonedTaskSweeper } from 'nestjs-a2a-cluster';
import { LeaseStore } from 'nestjs-a2a-cluster/stores';
import { InMemoryLeaseStore, InMemoryTaskStore, inMemoryStores } from '../../libs/a2a-cluster/src/testing/index.js';
import { clientFor, errorName, getTask, send } from '../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { AgentAppFixture, agentOf } from './agent-app.fixture.js';
import { completed, inputRequired, working } from './agent-events.js';
import { ClientFactory } from '@a2a-js/sdk/client';

const scopeOf = (task: Task) => ({ tenant: '', owner: 'unknown', taskId: task.id });

let hold: Deferred | undefined;

/** Asks first; then completes, or works until it is let go. */
const AskingAgent = agentOf({
  execute: async (context, bus) => {
    if (!context.task) return inputRequired(bus, context);
    working(bus, context);
    await hold?.promise;
    completed(bus, context);
  },
});

describe('An app with stores in memory', () => {
  const apps: INestApplication[] = [];
  afterEach(async () => {
    hold?.resolve();
    hold = undefined;
    await Promise.all(apps.splice(0).map((app) => app.close()));
  });

  /** A replica without any database. */
  async function start(stores: { tasks: InMemoryTaskStore; leases: InMemoryLeaseStore }) {
    const cluster = A2AClusterModule.forRoot({
      executor: AskingAgent,
      agentCard: { name: 'asking agent', description: 'asks', version: '1' },
      publicUrl: 'http://127.0.0.1:1',
      leases: { heartbeatIntervalMs: 100, ttlMs: 60_000 },
      turns: { cancelTimeoutMs: 300, drainTimeoutMs: 0 },
      extraProviders: inMemoryStores(stores),
    });
    class Root {}
    const app = await NestFactory.create(
      { module: Root, imports: [ScheduleModule.forRoot(), cluster] },
      new ExpressAdapter(),
      {
        abortOnError: false,
        forceCloseConnections: true,
        logger: false,
      },
    );
    apps.push(app);
    await app.listen(0, '127.0.0.1');
    const url = (await app.getUrl()).replace('[::1]', '127.0.0.1');
    const card = await (await fetch(`${url}/.well-known/agent-card.json`)).json();
    const reach = (body: unknown) =>
      JSON.parse(JSON.stringify(body).replaceAll('http://127.0.0.1:1/', `${url}/`)) as never;
    return { app, client: await new ClientFactory().createFromAgentCard(reach(card)) };
  }

  it('two apps that share them are two replicas: ask at one, answer at the other, one stream', async () => {
    const stores = { tasks: new InMemoryTaskStore(), leases: new InMemoryLeaseStore() };
    const [a, b] = [await start(stores), await start(stores)];
    const asked = await send(a.client, 'hello');
    expect(stateName(asked)).toBe('INPUT_REQUIRED');
    const watcher = Recording.subscribe(b.client, asked.id);
    await watcher.task();
    const answered = await send(b.client, 'this', { taskId: asked.id });
    expect(stateName(answered)).toBe('COMPLETED');
    expect((await watcher.finished()).map(summaryOf)).toEqual([
      'task INPUT_REQUIRED',
      'status WORKING',
      'status COMPLETED',
    ]);
    expect(await errorName(send(a.client, 'late', { taskId: asked.id }))).toBe('UnsupportedOperationError');
    expect(stores.leases.size).toBe(0);
  });

  it('a lease that runs out is swept, and the late turn changes nothing', async () => {
    const stores = { tasks: new InMemoryTaskStore(), leases: new InMemoryLeaseStore() };
    const { app, client } = await start(stores);
    const asked = await send(client, 'hello');
    hold = new Deferred();
    const sender = Recording.send(client, 'go on', { taskId: asked.id });
    await sender.waitFor((response) => summaryOf(response) === 'status WORKING');
    stores.leases.expire(scopeOf(asked));
    await app.get(AbandonedTaskSweeper, { strict: false }).runOnce();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status FAILED');
    hold.resolve();
    expect(stateName(await getTask(client, asked.id))).toBe('FAILED');
    expect(stores.leases.size).toBe(0);
  });
});

describe('A lease store that does not share the database', () => {
  const fixture = new AgentAppFixture();

  it('O24 O25 O26 acquire, then save; save, then release: nothing is left, and what dies is ended', async () => {
    const leases = new InMemoryLeaseStore();
    const hold = new Deferred();
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        if (!context.task) return inputRequired(bus, context);
        working(bus, context);
        await hold.promise;
      },
      cluster: { extraProviders: [{ provide: LeaseStore, useValue: leases }] },
    });
    const atA = await clientFor(a.url);
    const asked = await send(atA, 'hello');
    expect(leases.size).toBe(0); // released after it was saved
    const sender = Recording.send(atA, 'go on', { taskId: asked.id });
    const watcher = Recording.subscribe(await clientFor(b.url), asked.id);
    await sender.waitFor((response) => summaryOf(response) === 'status WORKING');
    expect(leases.size).toBe(1);
    leases.expire(scopeOf(asked));
    await b.sweep();
    expect((await watcher.finished()).map(summaryOf).at(-1)).toBe('status FAILED');
    hold.resolve();
    expect((await sender.finished()).map(summaryOf).at(-1)).toBe('status FAILED');
    await eventually(() => leases.size === 0);
    expect(await fixture.database.query('SELECT generation FROM a2a_task_leases')).toEqual([]);
  });
});
