import type { DataSource } from 'typeorm';
import { A2A_CLUSTER_ENTITIES } from './a2a-cluster.entities.js';
import { sqlName } from './database/table-names.js';
import { ClusterOptionsError } from './errors/cluster-options.error.js';

/** Refuses a DataSource that the library cannot work with, saying what to do. */
export function requireUsable(dataSource: DataSource | undefined, name: string | undefined): DataSource {
  const named = name === undefined ? 'the default DataSource' : `DataSource '${name}'`;
  if (!dataSource) {
    const how = name === undefined ? 'TypeOrmModule.forRoot({ … })' : `TypeOrmModule.forRoot({ name: '${name}', … })`;
    throw new ClusterOptionsError(
      'dataSource',
      `A2AClusterModule found no ${named.replace('the ', '')}: import ${how}.`,
    );
  }
  const { type } = dataSource.options;
  if (type !== 'postgres') {
    throw ClusterOptionsError.rule(
      'dataSource',
      name ?? 'default',
      `its type is '${type}', and only 'postgres' is supported`,
    );
  }
  const missing = A2A_CLUSTER_ENTITIES.filter((entity) => !dataSource.hasMetadata(entity));
  if (missing.length > 0) {
    throw new ClusterOptionsError(
      'dataSource',
      `A2AClusterModule's entities are not registered in ${named}: add ...A2A_CLUSTER_ENTITIES to its entities.`,
    );
  }
  return dataSource;
}

/** Refuses a database whose tables are missing. */
export async function requireTables(dataSource: DataSource): Promise<void> {
  const names = A2A_CLUSTER_ENTITIES.map((entity) => sqlName(dataSource, entity));
  const rows: { name: string }[] = await dataSource.query(
    'SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(name) IS NULL',
    [names],
  );
  if (rows.length === 0) return;
  throw new ClusterOptionsError(
    'dataSource',
    `A2AClusterModule's tables ${rows.map(({ name }) => name).join(', ')} are missing: ` +
      "add ...A2A_CLUSTER_MIGRATIONS to the DataSource's migrations and run them (migrationsRun: true, or the TypeORM CLI).",
  );
}
