import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { Global, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { ScheduleModule } from '@nestjs/schedule';
import { getDataSourceToken } from '@nestjs/typeorm';
import { A2A_CLUSTER_ENTITIES, A2AClusterModule, ClusterOptionsError } from 'nestjs-a2a-cluster';
import { LeaseStore } from 'nestjs-a2a-cluster/stores';
import { send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import {
  AgentAppFixture,
  type AgentAppOptions,
  agentOf,
  type ClusterOptions,
  clusterOptions,
  WITHOUT_LEASES,
} from './agent-app.fixture.js';
import { completed } from './agent-events.js';
import { CountingLeaseStore } from './counting-lease.store.js';

const fixture = new AgentAppFixture();

/** One line, of the library's own error, naming the option and matching the rest. */
function expectRefusal(error: Error, option: string, message: RegExp): void {
  expect(error).toBeInstanceOf(ClusterOptionsError);
  expect((error as ClusterOptionsError).code).toBe('A2A_CLUSTER_OPTIONS');
  expect((error as ClusterOptionsError).option).toBe(option);
  expect(error.message).toMatch(message);
  expect(error.message).not.toContain('\n');
}

/** Acquires by itself, beside the tasks' transactions. */
@Injectable()
class UndeclaredLeaseStore extends CountingLeaseStore {
  acquire(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
}

describe('The boot refuses options', () => {
  const bad: [string, ClusterOptions, string, RegExp][] = [
    [
      'heartbeat above a third of the TTL',
      { leases: { heartbeatIntervalMs: 1_001, ttlMs: 3_000 } },
      'leases.heartbeatIntervalMs',
      /leases\.heartbeatIntervalMs is 1001: .*third of leases\.ttlMs \(3000\)/,
    ],
    ['no executor', { executor: undefined as never }, 'executor', /executor is undefined: .*class.*token/],
    ['an empty agent id', { agentId: '' }, 'agentId', /agentId is "": .*empty/],
    [
      'guards beside a gRPC that nobody guards',
      { guards: [{ canActivate: () => false }], grpc: { port: 0 } },
      'grpc.userBuilder',
      /grpc\.userBuilder is undefined: guards see HTTP only/,
    ],
    [
      'credentials for gRPC that are none',
      { grpc: { port: 0, credentials: { key: 'k' } } },
      'grpc.credentials',
      /grpc\.credentials is \{"key":"k"\}: .*ServerCredentials of @grpc\/grpc-js/,
    ],
    [
      'a lease store that keeps leases apart and does not say so',
      { extraProviders: [{ provide: LeaseStore, useClass: UndeclaredLeaseStore }] },
      'extraProviders',
      /UndeclaredLeaseStore has a method acquire, .*extend SeparateLeaseStore/,
    ],
  ];

  test.each(bad)('%s', async (_what, cluster, option, message) => {
    expectRefusal(await fixture.bootError({ cluster }), option, message);
  });
});

describe('The boot refuses an app', () => {
  const bad: [string, AgentAppOptions, string, RegExp][] = [
    ['without ScheduleModule', { schedule: false }, 'sweeper', /import ScheduleModule\.forRoot\(\)/],
    [
      'without the named DataSource',
      { cluster: { dataSource: 'elsewhere' } },
      'dataSource',
      /no DataSource 'elsewhere': import TypeOrmModule\.forRoot\(\{ name: 'elsewhere'/,
    ],
    [
      'without the default DataSource',
      { dataSource: { name: 'other' } },
      'dataSource',
      /no default DataSource: import TypeOrmModule\.forRoot/,
    ],
    [
      'without the entities',
      { dataSource: { entities: [] } },
      'dataSource',
      /not registered in the default DataSource: add \.\.\.A2A_CLUSTER_ENTITIES/,
    ],
    [
      'with only some of the entities',
      { dataSource: { entities: A2A_CLUSTER_ENTITIES.slice(1) } },
      'dataSource',
      /add \.\.\.A2A_CLUSTER_ENTITIES/,
    ],
  ];

  test.each(bad)('%s', async (_what, options, option, message) => {
    expectRefusal(await fixture.bootError(options), option, message);
  });

  test('whose tables are missing, naming them and what to do', async () => {
    await fixture.database.query('CREATE SCHEMA empty');
    const error = await fixture.bootError({ dataSource: { schema: 'empty' } });
    expectRefusal(
      error,
      'dataSource',
      /"empty"\."a2a_tasks".*missing: add \.\.\.A2A_CLUSTER_MIGRATIONS.*migrationsRun/,
    );
  });

  test('of which one table is missing', async () => {
    await fixture.database.query('ALTER TABLE a2a_push_configs RENAME TO elsewhere');
    try {
      const error = await fixture.bootError();
      expectRefusal(error, 'dataSource', /a2a_push_configs.*missing/);
      expect(error.message).not.toContain('a2a_tasks');
    } finally {
      await fixture.database.query('ALTER TABLE elsewhere RENAME TO a2a_push_configs');
    }
  });

  test('of which one column is missing', async () => {
    await fixture.database.query('ALTER TABLE a2a_task_leases RENAME COLUMN holder TO elsewhere');
    try {
      expectRefusal(
        await fixture.bootError(),
        'dataSource',
        /"a2a_task_leases" has no column holder\. .*add \.\.\.A2A_CLUSTER_MIGRATIONS/,
      );
    } finally {
      await fixture.database.query('ALTER TABLE a2a_task_leases RENAME COLUMN elsewhere TO holder');
    }
  });

  test.each(['mysql', 'better-sqlite3', 'cockroachdb'])('whose DataSource is of type %s', async (type) => {
    const dataSource = { options: { type }, hasMetadata: () => true, isInitialized: true };
    @Global()
    @Module({
      providers: [{ provide: getDataSourceToken(), useValue: dataSource }],
      exports: [getDataSourceToken()],
    })
    class OtherDatabaseModule {}
    const cluster = A2AClusterModule.forRoot({ executor: agentOf({}), ...clusterOptions('http://agent.test') });
    const module = { module: class {}, imports: [OtherDatabaseModule, ScheduleModule.forRoot(), cluster] };
    const boot = NestFactory.create(module, { abortOnError: false, logger: fixture.logger });
    const error = await boot.then(
      () => new Error('It has started'),
      (reason: Error) => reason,
    );
    expectRefusal(error, 'dataSource', new RegExp(`dataSource is "default": its type is '${type}', .*'postgres'`));
  });

  test('whose database does not answer', async () => {
    const error = await fixture.bootError({ dataSource: { url: 'postgres://nobody@127.0.0.1:1/nothing' } });
    expect(JSON.stringify({ ...error, message: error.message })).toMatch(/ECONNREFUSED/);
  });
});

describe('An HTTP adapter that is not Express', () => {
  class OtherAdapter extends ExpressAdapter {
    override getType(): string {
      return 'fastify';
    }
  }

  test('is refused while a transport is on', async () => {
    for (const transports of [{}, { jsonRpc: false, rest: false }, { jsonRpc: false, agentCard: false }] as const) {
      const error = await fixture.bootError({ adapter: new OtherAdapter(), cluster: { transports } });
      expectRefusal(error, 'transports', /"fastify": .*platform-express.*false/);
    }
  });

  test('is fine with all transports off', async () => {
    await fixture.start({
      adapter: new OtherAdapter(),
      cluster: { transports: { jsonRpc: false, rest: false, agentCard: false } },
    });
  });
});

test('without leases there is no sweeper, and ScheduleModule is not needed', async () => {
  const app = await fixture.start({
    execute: (context, bus) => completed(bus, context),
    schedule: false,
    cluster: WITHOUT_LEASES,
  });
  expect(stateName(await send(await app.client(), 'hello'))).toBe('COMPLETED');
});

test('a refused boot leaves the next one alone', async () => {
  await fixture.bootError({ cluster: { leases: { heartbeatIntervalMs: 0 } } });
  const app = await fixture.start({ execute: (context, bus) => completed(bus, context) });
  expect(stateName(await send(await app.client(), 'hello'))).toBe('COMPLETED');
});

test('The boot refuses a port for gRPC that is taken, and leaves nothing open', async () => {
  const taken = createServer();
  taken.listen(0, '127.0.0.1');
  await once(taken, 'listening');
  try {
    const { port } = taken.address() as AddressInfo;
    const error = await fixture.bootError({ cluster: { grpc: { port, host: '127.0.0.1' } } });
    expectRefusal(
      error,
      'grpc.port',
      new RegExp(`grpc\\.port is ${port}: 127\\.0\\.0\\.1:${port} cannot be .*EADDRINUSE`),
    );
  } finally {
    taken.close();
  }
});
