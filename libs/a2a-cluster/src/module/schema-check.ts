import type { DataSource } from 'typeorm';
import { A2A_CLUSTER_ENTITIES } from '../postgres/schema/entities.js';
import { schemaDifferences } from '../postgres/schema/schema-differences.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { LibraryLogger } from '../logging/library.logger.js';

const RUN_MIGRATIONS =
  "add ...A2A_CLUSTER_MIGRATIONS to the DataSource's migrations and run them (migrationsRun: true, or the TypeORM CLI)";

/**
 * Compares the database with the entities, in one query. Refuses tables that the statements cannot work with and rights
 * that are missing; warns of missing indexes, which may have been given another shape on purpose.
 */
export async function requireSchema(dataSource: DataSource): Promise<void> {
  const { missingTables, wrong, grants, slow } = await schemaDifferences(dataSource, A2A_CLUSTER_ENTITIES);
  if (grants.length > 0) {
    throw new ClusterOptionsError(
      'dataSource',
      `A2AClusterModule's database role lacks rights on its tables: have their owner run ${grants.join('; ')}.`,
    );
  }
  if (missingTables.length > 0) {
    throw new ClusterOptionsError(
      'dataSource',
      `A2AClusterModule's tables ${missingTables.join(', ')} are missing: ${RUN_MIGRATIONS}.`,
    );
  }
  if (wrong.length > 0) {
    throw new ClusterOptionsError(
      'dataSource',
      `A2AClusterModule's tables are not as it needs them: ${wrong.join('; ')}. They may be of another version: ${RUN_MIGRATIONS}.`,
    );
  }
  if (slow.length === 0) return;
  new LibraryLogger('A2AClusterModule').warn(
    `A2AClusterModule's tables lack indexes, without which statements get slow: ${slow.join('; ')}. Run the migrations, or ` +
      'ignore this where indexes of yours do their work.',
  );
}
