import { A2A_CLUSTER_ENTITIES, A2A_CLUSTER_MIGRATIONS } from 'nestjs-a2a-cluster';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { describeError } from './describe-error.js';

/** How long a replica waits for its database at start, and for a connection later. */
const CONNECT_TIMEOUT_MS = 5_000;

/** Any fixed number will do, as long as every replica takes the same. */
const MIGRATION_LOCK = 4_203_117;

/** The DataSource of the app: the library's tables, and nothing that touches the schema by itself. Add your own here. */
export function dataSourceOptions(url: string) {
  return {
    type: 'postgres',
    url,
    entities: [...A2A_CLUSTER_ENTITIES],
    migrations: [...A2A_CLUSTER_MIGRATIONS],
    connectTimeoutMS: CONNECT_TIMEOUT_MS,
  } satisfies DataSourceOptions;
}

/**
 * Brings the schema up to date. Replicas that start together take turns: TypeORM itself does not keep two of them from
 * running one migration.
 *
 * @throws {Error} one line that names the database, without its password, if that does not answer.
 */
export async function migrate(options: DataSourceOptions & { url: string }): Promise<void> {
  const dataSource = new DataSource(options);
  try {
    await dataSource.initialize();
  } catch (error) {
    throw new Error(`the database of DATABASE_URL (${location(options.url)}) cannot be used: ${describeError(error)}`, {
      cause: error,
    });
  }
  const session = dataSource.createQueryRunner();
  try {
    // The lock belongs to this session, and ends with it even if this process dies here.
    await session.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await dataSource.runMigrations({ transaction: 'each' });
    await session.query('SELECT pg_advisory_unlock($1)', [MIGRATION_LOCK]);
  } finally {
    await session.release();
    await dataSource.destroy();
  }
}

function location(url: string): string {
  const { host, pathname } = new URL(url);
  return `${host}${pathname}`;
}
