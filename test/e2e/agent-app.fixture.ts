import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import type { AgentCapabilities } from '@a2a-js/sdk';
import { UnauthenticatedUser } from '@a2a-js/sdk/server';
import type { Client } from '@a2a-js/sdk/client';
import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import type { UserBuilder } from '@a2a-js/sdk/server/express';
import { type DynamicModule, Injectable, type INestApplication, Module, type ModuleMetadata } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { ScheduleModule } from '@nestjs/schedule';
import { Test, type TestingModuleBuilder } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import {
  A2A_CLUSTER_ENTITIES,
  A2AClusterModule,
  type A2AClusterOptions,
  type A2AClusterStaticOptions,
  AbandonedTaskSweeper,
  type TurnExecutor,
  type TurnRequestContext,
} from 'nestjs-a2a-cluster';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { type ClientOptions, clientFor } from '../../tools/harness/client.js';
import { createTestDatabase, type TestDatabase } from '../helpers/database.js';
import { expectNoLease, expectNothingLeft, watchTimers } from '../helpers/resource-check.js';
import { RecordingLogger } from './recording.logger.js';
import { quietSdk } from './quiet-sdk.js';

type PostgresOptions = Extract<DataSourceOptions, { type: 'postgres' }>;

/** What an agent does, as a test gives it. */
export interface AgentBehaviour {
  execute?: (context: TurnRequestContext, bus: ExecutionEventBus) => Promise<void> | void;
  cancelTask?: (taskId: string, bus: ExecutionEventBus) => Promise<void> | void;
}

/** Options of A2AClusterModule, static ones among them. */
export type ClusterOptions = Partial<A2AClusterOptions & A2AClusterStaticOptions>;

/** The transports that everything is tried on. */
export const TRANSPORTS = ['JSONRPC', 'HTTP+JSON'] as const;

/** What is different over gRPC is tried on that as well. */
export const ALL_TRANSPORTS = [...TRANSPORTS, 'GRPC'] as const;

/** An app that keeps no leases. */
export const WITHOUT_LEASES: ClusterOptions = { leases: false, sweeper: undefined as never };

/** The card of an agent that can do this. */
export const cardWith = (capabilities: Partial<AgentCapabilities>): ClusterOptions['agentCard'] & object => ({
  name: 'test agent',
  description: 'does what a test says',
  version: '1.0.0',
  capabilities: { streaming: true, extensions: [], ...capabilities },
});

export interface AgentAppOptions extends AgentBehaviour {
  /** Options over those of {@link clusterOptions}. */
  cluster?: ClusterOptions;
  /** The cluster module itself, or several, made by the test. */
  modules?: (options: A2AClusterOptions & A2AClusterStaticOptions) => NonNullable<ModuleMetadata['imports']>;
  /** What else the app's root module has. */
  root?: ModuleMetadata;
  /** Where the cluster module stands in the root module's imports. Default: behind TypeOrmModule. */
  position?: 'first' | 'last';
  /** Over the default DataSource options; with a name, there is no default DataSource. */
  dataSource?: Partial<PostgresOptions> & { name?: string };
  /** Whether ScheduleModule is imported. Default: true. */
  schedule?: boolean;
  /** Has the app made by `Test.createTestingModule`, with what this overrides. */
  override?: (builder: TestingModuleBuilder) => TestingModuleBuilder;
  /** Default: Express. */
  adapter?: ExpressAdapter;
  /** Global prefix, enhancers and the like, before the app is initialized. */
  configure?: (app: INestApplication) => void;
}

/** A running app and where it serves. */
export class AgentApp {
  private closing: Promise<void> | undefined;

  constructor(
    readonly nest: INestApplication,
    readonly url: string,
  ) {}

  client(options: ClientOptions = {}): Promise<Client> {
    return clientFor(this.url, options);
  }

  /** One sweep, now. */
  async sweep(): Promise<void> {
    await this.nest.get(AbandonedTaskSweeper, { strict: false }).runOnce();
  }

  close(): Promise<void> {
    this.closing ??= this.nest.close();
    return this.closing;
  }
}

/**
 * Nest apps on one database of their own. Made at the top of a test file, it registers the file's hooks. Apps live for a
 * test, or `for: 'file'` until the file is done.
 */
export class AgentAppFixture {
  database!: TestDatabase;
  /** What the apps of the running test have logged. */
  readonly logger = new RecordingLogger();
  private readonly apps: AgentApp[] = [];
  private readonly dataSources: Promise<DataSource>[] = [];

  constructor({ for: lifetime = 'test' }: { for?: 'test' | 'file' } = {}) {
    const timers = watchTimers();
    const restoreConsole = quietSdk();
    beforeAll(async () => {
      this.database = await createTestDatabase();
      await (await this.database.dataSource()).destroy(); // the tables are there
    });
    afterEach(async () => {
      try {
        await expectNoLease(this.database);
      } finally {
        if (lifetime === 'test') await this.closeApps();
        await this.database.query('DELETE FROM a2a_task_leases'); // what one test leaves behind is not the next one's
        this.logger.clear();
      }
    });
    afterAll(async () => {
      await this.closeApps();
      restoreConsole();
      try {
        await expectNothingLeft(this.database, { timers });
      } finally {
        await this.database.drop();
      }
    });
  }

  /** Starts an app; it is closed after the test. */
  async start(options: AgentAppOptions = {}): Promise<AgentApp> {
    const listener = await reserve();
    const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
    let nest: INestApplication | undefined;
    try {
      // Undici opens a connection ahead of need after an abort; without force, closing would wait until it times out.
      const adapter = options.adapter ?? new ExpressAdapter();
      nest = await this.create(this.rootModule(url, options), adapter, options.override);
      const app = new AgentApp(nest, url);
      this.apps.push(app);
      options.configure?.(nest);
      await nest.listen(listener as unknown as number);
      return app;
    } catch (error) {
      listener.close();
      throw error;
    }
  }

  /** Two replicas of one agent. */
  async startTwo(options: AgentAppOptions = {}): Promise<[AgentApp, AgentApp]> {
    return [await this.start(options), await this.start(options)];
  }

  /** How many rows there are of each kind that a message may leave. */
  countRows(): Promise<unknown> {
    return this.database.query(
      `SELECT (SELECT count(*) FROM a2a_tasks) AS tasks, (SELECT count(*) FROM a2a_task_events) AS events,
              (SELECT count(*) FROM a2a_task_leases) AS leases, (SELECT count(*) FROM a2a_message_receipts) AS receipts`,
    );
  }

  /** What the boot of an app fails with. */
  async bootError(options: AgentAppOptions = {}): Promise<Error> {
    try {
      await this.start(options);
    } catch (error) {
      return error as Error; // Node's own errors are no instances of this realm's Error
    }
    throw new Error('The app has started');
  }

  private async closeApps(): Promise<void> {
    await Promise.all(this.apps.splice(0).map((app) => app.close()));
    for (const outcome of await Promise.allSettled(this.dataSources.splice(0))) {
      if (outcome.status === 'fulfilled' && outcome.value.isInitialized) await outcome.value.destroy();
    }
  }

  private async create(
    module: DynamicModule,
    adapter: ExpressAdapter,
    override: AgentAppOptions['override'],
  ): Promise<INestApplication> {
    const settings = { abortOnError: false, forceCloseConnections: true, logger: this.logger };
    if (!override) return NestFactory.create(module, adapter, settings);
    const builder = Test.createTestingModule({ imports: [module] }).setLogger(this.logger);
    return (await override(builder).compile()).createNestApplication(adapter, settings);
  }

  private rootModule(url: string, options: AgentAppOptions): DynamicModule {
    const { cluster = {}, modules = (given) => [A2AClusterModule.forRoot(given)], root = {}, position } = options;
    const defaults = clusterOptions(url);
    const turns = { ...defaults.turns, ...cluster.turns };
    const clusterModules = modules({ executor: agentOf(options), ...defaults, ...cluster, turns });
    const parts = [this.typeOrm(options.dataSource), ...(options.schedule === false ? [] : [ScheduleModule.forRoot()])];
    const imports = position === 'first' ? [...clusterModules, ...parts] : [...parts, ...clusterModules];
    return { ...root, module: AgentAppModule, imports: [...imports, ...(root.imports ?? [])] };
  }

  /** A boot that fails does not close its DataSource; so we know them all. */
  private typeOrm(options: Partial<PostgresOptions> & { name?: string } = {}): DynamicModule {
    const { name = 'default' } = options;
    return TypeOrmModule.forRootAsync({
      name,
      useFactory: () => ({
        type: 'postgres',
        url: this.database.url,
        entities: A2A_CLUSTER_ENTITIES,
        retryAttempts: 0,
        ...options,
      }),
      dataSourceFactory: (given) => {
        const initialized = new DataSource(given!).initialize();
        this.dataSources.push(initialized);
        return initialized;
      },
    });
  }
}

/** Short times, and a sweeper that runs when a test says so. */
export function clusterOptions(publicUrl: string): A2AClusterOptions {
  return {
    agentCard: { name: 'test agent', description: 'does what a test says', version: '1.0.0' },
    publicUrl,
    leases: { heartbeatIntervalMs: 200, ttlMs: 3_000 },
    sweeper: { intervalMs: 3_600_000 },
    streams: { pollIntervalMs: 100 },
    turns: { drainTimeoutMs: 200, cancelTimeoutMs: 1_000 },
    userBuilder: bearerUser,
  };
}

/** Takes `Authorization: Bearer NAME` for user NAME. */
export const bearerUser: UserBuilder = ({ headers }) => {
  const userName = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1];
  return Promise.resolve(
    userName === undefined
      ? new UnauthenticatedUser()
      : { isAuthenticated: true, userName: decodeURIComponent(userName) },
  );
};

/** An executor class that behaves like this. */
export function agentOf({ execute, cancelTask }: AgentBehaviour): new () => TurnExecutor {
  @Injectable()
  class TestAgent implements TurnExecutor {
    async execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
      await execute?.(context, bus);
    }

    async cancelTask(taskId: string, bus: ExecutionEventBus): Promise<void> {
      await cancelTask?.(taskId, bus);
    }
  }
  return TestAgent;
}

@Module({})
class AgentAppModule {}

/** Holds a free port for an app whose card must name it before it listens: Node's `listen` takes over the server. */
async function reserve(): Promise<Server> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
