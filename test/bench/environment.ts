import { randomBytes } from 'node:crypto';
import { A2A_CLUSTER_ENTITIES, A2A_CLUSTER_MIGRATIONS } from 'nestjs-a2a-cluster';
import pg from 'pg';
import { DataSource } from 'typeorm';
import { reservePort } from '../../tools/harness/port.js';
import { PostgresServer } from '../../tools/harness/postgres-server.js';

/** Connections of every contender's pool: the drivers' own default. */
export const POOL_SIZE = 10;

/** One PostgreSQL for the whole run; a database for each contender of each workload. */
export class BenchEnvironment {
  private constructor(
    private readonly server: PostgresServer,
    readonly postgresVersion: string,
    readonly progress: (text: string) => void,
  ) {}

  static async start(progress: (text: string) => void): Promise<BenchEnvironment> {
    const server = await PostgresServer.start({ findPort: reservePort });
    try {
      const version = await withClient(server.url(), async (client) => {
        const { rows } = await client.query<{ version: string }>(`SELECT current_setting('server_version') AS version`);
        return rows[0]!.version;
      });
      return new BenchEnvironment(server, version, progress);
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  /** An empty database. */
  createDatabase(): Promise<string> {
    return this.server.createDatabase(`bench_${randomBytes(5).toString('hex')}`);
  }

  /** A database with the library's tables. */
  async createClusterDatabase(): Promise<string> {
    const url = await this.createDatabase();
    const dataSource = new DataSource({
      type: 'postgres',
      url,
      entities: A2A_CLUSTER_ENTITIES,
      migrations: A2A_CLUSTER_MIGRATIONS,
    });
    await dataSource.initialize();
    try {
      await dataSource.runMigrations();
    } finally {
      await dataSource.destroy();
    }
    return url;
  }

  stop(): Promise<void> {
    return this.server.stop();
  }
}

/** A pool of a contender that brings none of its own. */
export function contenderPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: POOL_SIZE });
  // The server may be stopped before the last goodbye has reached it; a statement that fails says so by itself.
  pool.on('error', () => undefined);
  return pool;
}

/** A session of the bench's own, for what is none of the contenders' work. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
