import { dataSourceOptions } from '../../apps/sample/src/database.js';
import { CreateLedger1796000060000 } from '../scripted-agent/ledger/create-ledger.migration.js';

/** The sample's DataSource, and the tables of the ledger. */
export function replicaDataSource(url: string) {
  const options = dataSourceOptions(url);
  return { ...options, migrations: [...options.migrations, CreateLedger1796000060000] };
}
