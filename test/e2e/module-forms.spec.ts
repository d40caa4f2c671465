import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { Inject, Injectable, Module, type Provider, type Type } from '@nestjs/common';
import { getDataSourceToken } from '@nestjs/typeorm';
import {
  A2A_REQUEST_HANDLER,
  A2AClusterModule,
  type A2AClusterOptions,
  type A2AClusterOptionsFactory,
  type A2AClusterStaticOptions,
  AbandonedTaskSweeper,
  type TurnExecutor,
  type TurnRequestContext,
} from 'nestjs-a2a-cluster';
import { LeaseStore, TaskEventStream, VersionedTaskStore } from 'nestjs-a2a-cluster/stores';
import { getTask, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { type AgentApp, AgentAppFixture, agentOf } from './agent-app.fixture.js';
import { completed, textOf } from './agent-events.js';
import { CountingLeaseStore } from './counting-lease.store.js';

const fixture = new AgentAppFixture();

const execute = (context: TurnRequestContext, bus: ExecutionEventBus): void => completed(bus, context, 'done');

/** The agent works, and the options that these modules were given are in force. */
async function expectServing(app: AgentApp, name = 'from elsewhere'): Promise<void> {
  for (const transport of ['JSONRPC', 'HTTP+JSON'] as const) {
    const client = await app.client({ transport });
    expect((await client.getAgentCard()).name).toBe(name);
    const task = await send(client, 'hello');
    expect(stateName(await getTask(client, task.id))).toBe('COMPLETED');
  }
}

/** Splits what the fixture gives into what is fixed when the module is made, and the rest, which a factory gives. */
function split({ executor, ...rest }: A2AClusterOptions & A2AClusterStaticOptions): {
  fixed: Pick<A2AClusterStaticOptions, 'executor'>;
  rest: A2AClusterOptions;
} {
  return { fixed: { executor }, rest: { ...rest, agentCard: { ...rest.agentCard, name: 'from elsewhere' } } };
}

describe('A2AClusterModule', () => {
  test('forRoot', async () => {
    await expectServing(await fixture.start({ execute }), 'test agent');
  });

  test('forRootAsync with useFactory and inject', async () => {
    const app = await fixture.start({
      execute,
      modules: (given) => {
        const { fixed, rest } = split(given);
        @Module({ providers: [{ provide: 'CONFIG', useValue: rest }], exports: ['CONFIG'] })
        class ConfigModule {}
        return [
          A2AClusterModule.forRootAsync({
            ...fixed,
            imports: [ConfigModule],
            useFactory: (config: A2AClusterOptions) => Promise.resolve(config),
            inject: ['CONFIG'],
          }),
        ];
      },
    });
    await expectServing(app);
  });

  test('forRootAsync with useClass', async () => {
    const app = await fixture.start({
      execute,
      modules: (given) => {
        const { fixed, rest } = split(given);
        @Injectable()
        class Config implements A2AClusterOptionsFactory {
          createA2AClusterOptions(): A2AClusterOptions {
            return rest;
          }
        }
        return [A2AClusterModule.forRootAsync({ ...fixed, useClass: Config })];
      },
    });
    await expectServing(app);
  });

  test('forRootAsync with useExisting', async () => {
    const made: object[] = [];
    const app = await fixture.start({
      execute,
      modules: (given) => {
        const { fixed, rest } = split(given);
        @Injectable()
        class Config implements A2AClusterOptionsFactory {
          constructor() {
            made.push(this);
          }

          createA2AClusterOptions(): Promise<A2AClusterOptions> {
            return Promise.resolve(rest);
          }
        }
        @Module({ providers: [Config], exports: [Config] })
        class ConfigModule {}
        return [A2AClusterModule.forRootAsync({ ...fixed, imports: [ConfigModule], useExisting: Config })];
      },
    });
    await expectServing(app);
    expect(made).toHaveLength(1);
  });

  test('forRootAsync takes all static options beside the factory', async () => {
    const paths = { jsonRpc: '/rpc', rest: '/http', agentCard: '/card.json' };
    const app = await fixture.start({
      execute,
      modules: (given) => {
        const { fixed, rest } = split(given);
        return [
          A2AClusterModule.forRootAsync({
            ...fixed,
            agentId: 'static',
            transports: paths,
            isGlobal: true,
            extraProviders: [],
            guards: [],
            useFactory: () => rest,
          }),
        ];
      },
    });
    const card = (await (await fetch(`${app.url}/card.json`)).json()) as { supportedInterfaces: { url: string }[] };
    expect(card.supportedInterfaces.map(({ url }) => url)).toEqual([`${app.url}/rpc`, `${app.url}/http`]);
    const call = { jsonrpc: '2.0', id: 1, method: 'ListTasks', params: {} };
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
    const response = await fetch(`${app.url}/rpc`, { method: 'POST', headers, body: JSON.stringify(call) });
    expect(await response.json()).toMatchObject({ id: 1, result: { totalSize: 0 } });
  });

  test('undefined in options, static ones and nested ones too, means the default', async () => {
    const nothing = {
      imports: undefined,
      extraProviders: undefined,
      isGlobal: undefined,
      dataSource: undefined,
      agentId: undefined,
      guards: undefined,
      transports: { jsonRpc: undefined, bodyLimitBytes: undefined },
      leases: { ttlMs: undefined, heartbeatIntervalMs: undefined },
      sweeper: { policy: undefined },
      streams: { notify: undefined, pollIntervalMs: undefined },
      turns: { unfinishedTurn: undefined },
      interruptedTaskTimeoutMs: undefined,
      userBuilder: undefined,
      ownerResolver: undefined,
      contextCodec: undefined,
      globalEnhancers: undefined,
      extendedAgentCard: undefined,
      cardSignature: undefined,
    };
    const app = await fixture.start({ execute, cluster: nothing as never });
    await expectServing(app, 'test agent');
    const [task] = await fixture.database.query('SELECT agent FROM a2a_tasks ORDER BY task_no DESC LIMIT 1');
    expect(task).toEqual({ agent: 'default' });
  });

  test('the executor is a class that sees what imports export, or the token of a provider that they export', async () => {
    @Injectable()
    class Greeter {
      readonly greeting = 'greetings';
    }
    @Module({ providers: [Greeter], exports: [Greeter] })
    class GreeterModule {}
    @Injectable()
    class GreetingAgent implements TurnExecutor {
      constructor(private readonly greeter: Greeter) {}

      execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
        completed(bus, context, this.greeter.greeting);
        return Promise.resolve();
      }

      cancelTask(): Promise<void> {
        return Promise.resolve();
      }
    }
    const byToken: Provider[] = [
      { provide: 'AGENT', useClass: GreetingAgent },
      { provide: 'AGENT', useFactory: (greeter: Greeter) => new GreetingAgent(greeter), inject: [Greeter] },
      { provide: 'AGENT', useValue: new GreetingAgent(new Greeter()) },
    ];
    const forms: [string | Type<TurnExecutor>, Type][] = [[GreetingAgent, GreeterModule]];
    for (const provider of byToken) {
      @Module({ imports: [GreeterModule], providers: [provider], exports: ['AGENT'] })
      class AgentModule {}
      forms.push(['AGENT', AgentModule]);
    }
    for (const [executor, imported] of forms) {
      const app = await fixture.start({ cluster: { executor, imports: [imported] } });
      const task = await send(await app.client(), 'hello');
      expect(textOf(task.status?.message)).toBe('greetings');
    }
  });

  test('extraProviders replace a store', async () => {
    const app = await fixture.start({
      execute: async (context, bus) => {
        completed(bus, context);
        await context.turn.flush();
      },
      cluster: { extraProviders: [{ provide: LeaseStore, useClass: CountingLeaseStore }] },
    });
    const store = app.nest.get<CountingLeaseStore>(LeaseStore, { strict: false });
    expect(store).toBeInstanceOf(CountingLeaseStore);
    await app.sweep();
    expect(store.calls.claim).toBe(1);
    await send(await app.client(), 'hello');
    await app.close();
    expect(store.calls.close).toBe(1);
  });

  test('a named DataSource', async () => {
    const app = await fixture.start({ execute, dataSource: { name: 'agents' }, cluster: { dataSource: 'agents' } });
    await expectServing(app, 'test agent');
    expect(() => app.nest.get<unknown>(getDataSourceToken(), { strict: false })).toThrow();
  });

  test("dataSource: 'default' is the default DataSource", async () => {
    await expectServing(await fixture.start({ execute, cluster: { dataSource: 'default' } }), 'test agent');
  });

  test('names of tables and schema are those of the DataSource', async () => {
    await fixture.database.query('CREATE SCHEMA IF NOT EXISTS agents');
    const options = { schema: 'agents', entityPrefix: 'my_' };
    await (await fixture.database.dataSource(options)).destroy();
    await expectServing(await fixture.start({ execute, dataSource: options }), 'test agent');
    const [count] = await fixture.database.query('SELECT count(*)::integer AS tasks FROM agents.my_a2a_tasks');
    expect(count).toEqual({ tasks: 2 });
  });
});

describe('Test.createTestingModule', () => {
  test('makes an app that serves, large bodies too', async () => {
    const app = await fixture.start({ execute, override: (builder) => builder });
    await expectServing(app, 'test agent');
    expect(stateName(await send(await app.client(), 'x'.repeat(500_000)))).toBe('COMPLETED');
  });

  test('may override the executor and the stores', async () => {
    const executor = agentOf({ execute });
    const mocked = {
      execute: (context: TurnRequestContext, bus: ExecutionEventBus) => completed(bus, context, 'mocked'),
    };
    const app = await fixture.start({
      cluster: { executor },
      override: (builder) =>
        builder
          .overrideProvider(executor)
          .useValue({ ...mocked, cancelTask: () => Promise.resolve() })
          .overrideProvider(LeaseStore)
          .useClass(CountingLeaseStore),
    });
    expect(app.nest.get(LeaseStore, { strict: false })).toBeInstanceOf(CountingLeaseStore);
    const task = await send(await app.client(), 'hello');
    expect(textOf(task.status?.message)).toBe('mocked');
  });
});

describe('What the module exports', () => {
  const tokens = [A2A_REQUEST_HANDLER, VersionedTaskStore, LeaseStore, TaskEventStream, AbandonedTaskSweeper];

  /** Uses all of it, in a module of its own. */
  @Injectable()
  class Consumer {
    constructor(
      @Inject(A2A_REQUEST_HANDLER) readonly handler: A2ARequestHandler,
      readonly tasks: VersionedTaskStore,
      readonly leases: LeaseStore,
      readonly stream: TaskEventStream,
      readonly sweeper: AbandonedTaskSweeper,
    ) {}
  }

  @Module({ providers: [Consumer] })
  class ConsumerModule {}

  test('isGlobal: all of it is injectable everywhere', async () => {
    const app = await fixture.start({ execute, cluster: { isGlobal: true }, root: { imports: [ConsumerModule] } });
    const { handler, tasks, leases, stream, sweeper } = app.nest.get(Consumer, { strict: false });
    expect((await handler.getAgentCard()).name).toBe('test agent');
    expect([tasks, leases, stream, sweeper].map((one, at) => one instanceof (tokens[at + 1] as Type))).toEqual([
      true,
      true,
      true,
      true,
    ]);
  });

  test('without isGlobal it is not', async () => {
    const error = await fixture.bootError({ execute, root: { imports: [ConsumerModule] } });
    expect(error.message).toMatch(/can't resolve dependencies of the Consumer/);
  });

  test('without isGlobal it is injectable where the module is imported', async () => {
    const app = await fixture.start({ execute, root: { providers: [Consumer] } });
    expect(app.nest.get(Consumer).tasks).toBeInstanceOf(VersionedTaskStore);
  });
});

test("an agent's class is an ordinary provider: it can be got from the app", async () => {
  const executor = agentOf({ execute });
  const app = await fixture.start({ cluster: { executor } });
  expect(app.nest.get(executor, { strict: false })).toBeInstanceOf(executor);
});
