import { randomBytes } from 'node:crypto';
import { A2A_CLUSTER_ENTITIES, A2A_CLUSTER_MIGRATIONS } from 'nestjs-a2a-cluster';
import pg from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { within } from '../../tools/harness/wait.js';

/** `application_name` of the connections a test makes for itself, by which checks tell them from the library's. */
export const TEST_APPLICATION_NAME = 'a2a-cluster-test';

type PostgresOptions = Extract<DataSourceOptions, { type: 'postgres' }>;

/** Options of {@link TestDatabase.dataSource}; entities and migrations default to the library's own. */
export type TestDataSourceOptions = Partial<Omit<PostgresOptions, 'type' | 'url'>> & {
  /** Whether the migrations are run. Default true. */
  migrate?: boolean;
};

/** A fresh, empty database on the run's server. One per test file: `beforeAll` makes it, `afterAll` drops it. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const name = `a2a_test_${process.env.A2A_TEST_RUN_ID ?? 'single'}_${randomBytes(5).toString('hex')}`;
  // template0: nobody can be connected to it, which would make CREATE DATABASE fail.
  await onServer((client) => client.query(`CREATE DATABASE "${name}" TEMPLATE template0`));
  return new TestDatabase(name);
}

/** A database that belongs to one test file, with connections that end when it is dropped. */
export class TestDatabase {
  /** Connection URL, for replicas and for `TypeOrmModule.forRoot({ url })`. */
  readonly url: string;
  private readonly dataSources = new Set<DataSource>();
  private readonly clients = new Set<pg.Client>();
  private migrations: Promise<unknown> = Promise.resolve();
  private own: Promise<pg.Client> | undefined;

  constructor(readonly name: string) {
    const url = new URL(serverUrl());
    url.pathname = `/${name}`;
    this.url = url.href;
  }

  /** An initialized and migrated DataSource, as an app would configure it. Each call makes another one. */
  async dataSource(options: TestDataSourceOptions = {}): Promise<DataSource> {
    const { migrate = true, ...rest } = options;
    const dataSource = new DataSource({
      entities: A2A_CLUSTER_ENTITIES,
      migrations: A2A_CLUSTER_MIGRATIONS,
      ...rest,
      type: 'postgres',
      url: this.url,
    });
    this.dataSources.add(dataSource);
    await dataSource.initialize();
    if (migrate) {
      // One after the other: TypeORM takes no lock, so two that start at once would both create the tables.
      this.migrations = this.migrations.then(() => dataSource.runMigrations());
      await this.migrations;
    }
    return dataSource;
  }

  /** Runs one statement outside of anything under test and returns its rows. `bigint` comes as a string. */
  async query<R extends pg.QueryResultRow = Record<string, unknown>>(
    sql: string,
    params: unknown[] = [],
  ): Promise<R[]> {
    const client = await this.ownClient();
    return (await client.query<R>(sql, params)).rows;
  }

  /** A session of the test's own: for row locks held over several steps, or a LISTEN. Ends with the database. */
  async connect(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.url, application_name: TEST_APPLICATION_NAME });
    client.on('error', () => undefined); // a test may terminate any backend; the next query then says so
    client.once('end', () => this.clients.delete(client));
    this.clients.add(client);
    await client.connect();
    return client;
  }

  /** Connections that the pools of the DataSources made here hold at the moment. */
  get pooledConnections(): number {
    return [...this.dataSources].reduce((sum, dataSource) => sum + pooledConnections(dataSource), 0);
  }

  /**
   * Ends every connection made here and drops the database, whoever else is still connected to it.
   *
   * @throws {WaitTimeoutError} when a connection of one of the pools was taken and not given back
   */
  async drop(): Promise<void> {
    const destroyed = [...this.dataSources].filter((it) => it.isInitialized).map((it) => it.destroy());
    const ended = [...this.clients].map((client) => client.end());
    try {
      await within(Promise.all([...destroyed, ...ended]), 5_000, 'the pools end: somebody still holds a connection');
    } finally {
      await onServer((client) => client.query(`DROP DATABASE IF EXISTS "${this.name}" WITH (FORCE)`));
    }
  }

  private ownClient(): Promise<pg.Client> {
    if (this.own) return this.own;
    const own = this.connect();
    const forget = (): void => {
      if (this.own === own) this.own = undefined;
    };
    own.then((client) => client.once('end', forget), forget);
    this.own = own;
    return own;
  }
}

/** Connections that the DataSource's pool holds at the moment. */
export function pooledConnections(dataSource: DataSource): number {
  if (!dataSource.isInitialized) return 0;
  return (dataSource.driver as unknown as { master: pg.Pool }).master.totalCount;
}

async function onServer(work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl(), application_name: TEST_APPLICATION_NAME });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

function serverUrl(): string {
  const url = process.env.A2A_TEST_DATABASE_URL;
  if (!url)
    throw new Error('A2A_TEST_DATABASE_URL is not set: run the tests through Jest with test/helpers/global-setup');
  return url;
}
