import type { DataSource } from 'typeorm';
import { ClusterOptionsError } from '../../errors/cluster-options.error.js';
import { A2A_CLUSTER_ENTITIES } from './entities.js';

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
