import { Logger } from '@nestjs/common';
import { type DataSource, DefaultNamingStrategy, type Table } from 'typeorm';
import { A2A_CLUSTER_MIGRATIONS } from '../../libs/a2a-cluster/src/postgres/schema/entities.js';
import { createTestDatabase, type TestDatabase, type TestDataSourceOptions } from '../helpers/database.js';
import { createCluster, newScope } from './cluster.fixture.js';
import { COMPLETED, message, status } from './events.fixture.js';

const TABLES = [
  'a2a_message_receipts',
  'a2a_push_configs',
  'a2a_replicas',
  'a2a_task_effects',
  'a2a_task_events',
  'a2a_task_leases',
  'a2a_tasks',
];

/** Names a constraint after its columns in their order, which TypeORM's own does not. */
class PlainNames extends DefaultNamingStrategy {
  override uniqueConstraintName(table: Table | string, columns: string[]): string {
    return `uq_${(typeof table === 'string' ? table : table.name).split('.').at(-1)}_${columns.join('_')}`;
  }
}

const cases: [string, { schema: string; prefix: string; options: TestDataSourceOptions }][] = [
  ['as they are', { schema: 'public', prefix: '', options: {} }],
  ['with an entityPrefix', { schema: 'public', prefix: 'agents_', options: { entityPrefix: 'agents_' } }],
  ['in a schema', { schema: 'Agents', prefix: '', options: { schema: 'Agents' } }],
  ['with both', { schema: 'Agents', prefix: 'x_', options: { schema: 'Agents', entityPrefix: 'x_' } }],
  ['named in the app’s own way', { schema: 'public', prefix: '', options: { namingStrategy: new PlainNames() } }],
];

describe.each(cases)('The library’s tables %s', (_name, { schema, prefix, options }) => {
  let db: TestDatabase;
  let dataSource: DataSource;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    db = await createTestDatabase();
    await db.query('CREATE SCHEMA "Agents"');
    dataSource = await db.dataSource(options);
  });

  afterAll(() => db.drop());

  const relations = async (kinds: string): Promise<string[]> => {
    const rows = await db.query<{ name: string }>(
      `SELECT c.relname AS name
         FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
              LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
        WHERE n.nspname = $1 AND c.relkind = ANY(string_to_array($2, NULL))
          AND concat(c.relname, i.indrelid::regclass::text) NOT LIKE '%migrations%'
        ORDER BY c.relname`,
      [schema, kinds],
    );
    return rows.map(({ name }) => name);
  };

  it('are made by the migrations, all of them and nothing else', async () => {
    expect(await relations('r')).toEqual(TABLES.map((name) => prefix + name).sort());
    expect(await dataSource.showMigrations()).toBe(false);
  });

  it('leave the schema builder nothing to change', async () => {
    const { upQueries } = await dataSource.driver.createSchemaBuilder().log();
    expect(upQueries.map(({ query }) => query)).toEqual([]);
  });

  it('I3 draw generations and task numbers that only grow: identity ALWAYS, nothing cached', async () => {
    const columns = await db.query(
      `SELECT table_name, column_name, identity_generation FROM information_schema.columns
        WHERE table_schema = $1 AND is_identity = 'YES' ORDER BY table_name`,
      [schema],
    );
    expect(columns).toEqual([
      { table_name: `${prefix}a2a_task_leases`, column_name: 'generation', identity_generation: 'ALWAYS' },
      { table_name: `${prefix}a2a_tasks`, column_name: 'task_no', identity_generation: 'ALWAYS' },
    ]);
    const sequences = await db.query('SELECT cache_size, cycle FROM pg_sequences WHERE schemaname = $1', [schema]);
    expect(sequences.filter(({ cache_size: cached }) => cached === '1')).not.toHaveLength(0);
    expect(sequences.filter((it) => it.cache_size !== '1' || it.cycle)).toEqual([]);
  });

  it('leave room on the pages of the replicas, and no index that a renewal would have to change', async () => {
    const [replicas] = await db.query(
      'SELECT reloptions FROM pg_class WHERE relname = $1 AND relnamespace = $2::regnamespace',
      [`${prefix}a2a_replicas`, `"${schema}"`],
    );
    expect(replicas).toEqual({ reloptions: ['fillfactor=10'] });
    const indexed = await db.query<{ column: string }>(
      `SELECT a.attname AS column FROM pg_index JOIN pg_attribute AS a ON a.attrelid = indexrelid
        WHERE indrelid = format('%I.%I', $1::text, $2::text)::regclass ORDER BY 1`,
      [schema, `${prefix}a2a_replicas`],
    );
    expect(indexed.map(({ column }) => column)).toEqual(['holder']);
  });

  it('keep every time with its zone', async () => {
    const times = await db.query<{ type: string }>(
      `SELECT DISTINCT data_type AS type FROM information_schema.columns
        WHERE table_schema = $1 AND table_name LIKE '%a2a_%' AND data_type LIKE 'time%'`,
      [schema],
    );
    expect(times).toEqual([{ type: 'timestamp with time zone' }]);
  });

  it('are the ones that a turn uses from its first commit to its recovery', async () => {
    const [a, b] = [await createCluster(dataSource, { notify: true }), await createCluster(dataSource)];
    try {
      const asked = await a.waiting();
      const answered = await b.followUp(asked.scope, message('answer'));
      answered.loop!.add(status(asked.scope, COMPLETED));
      await answered.flush();
      const { scope } = await a.working(newScope());
      const leases = [schema, `${prefix}a2a_task_leases`].map((part) => `"${part}"`).join('.');
      await db.query(`UPDATE ${leases} SET expires_at = clock_timestamp() - interval '1 second'`);
      expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 1, failed: 1 });
      expect((await a.tasks.find(scope))?.version).toBe(2);
      expect((await a.tasks.find(asked.scope))?.version).toBe(4);
    } finally {
      await Promise.all([a.close(), b.close()]);
    }
  });

  it('are gone after down(), with their sequences and indexes', async () => {
    for (const _ of A2A_CLUSTER_MIGRATIONS) await dataSource.undoLastMigration();
    expect(await relations('rSi')).toEqual([]);
    await dataSource.runMigrations();
    expect(await relations('r')).toHaveLength(TABLES.length);
  });
});
