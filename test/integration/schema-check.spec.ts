import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { A2A_CLUSTER_ENTITIES } from '../../libs/a2a-cluster/src/postgres/schema/entities.js';
import { requireSchema } from '../../libs/a2a-cluster/src/module/schema-check.js';
import { ClusterOptionsError } from '../../libs/a2a-cluster/src/errors/cluster-options.error.js';
import { createTestDatabase, type TestDatabase, type TestDataSourceOptions } from '../helpers/database.js';

const cases: [string, { options: TestDataSourceOptions; schema: string; prefix: string; named: string }][] = [
  ['as they are', { options: {}, schema: 'public', prefix: '', named: '' }],
  [
    'in a schema, with an entityPrefix',
    { options: { schema: 'Agents', entityPrefix: 'x_' }, schema: 'Agents', prefix: 'x_', named: '"Agents".' },
  ],
];

describe.each(cases)('The look at the tables %s', (_name, { options, schema, prefix, named }) => {
  let db: TestDatabase;
  let owner: DataSource;
  let role: string;
  let warnings: string[];

  beforeAll(async () => {
    Logger.overrideLogger(false);
    db = await createTestDatabase();
    await db.query('CREATE SCHEMA "Agents"');
    owner = await db.dataSource(options);
    role = db.name.replace('a2a_test', 'role');
    await db.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
  });

  afterAll(async () => {
    try {
      await db.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
    } finally {
      await db.drop();
    }
  });

  beforeEach(() => {
    warnings = [];
    jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => void warnings.push(String(message)));
  });

  afterEach(() => jest.restoreAllMocks());

  const table = (name: string): string => `"${schema}"."${prefix}${name}"`;
  /** As the messages name it. */
  const shown = (name: string): string => `${named}"${prefix}${name}"`;

  async function refusal(dataSource = owner): Promise<string> {
    try {
      await requireSchema(dataSource);
    } catch (error) {
      if (!(error instanceof ClusterOptionsError)) throw error;
      expect(error.option).toBe('dataSource');
      expect(error.message).not.toContain('\n');
      return error.message;
    }
    return 'none';
  }

  /** What the look says of a change, which is taken back after it. */
  async function refusalAfter(...changes: string[]): Promise<string> {
    const client = owner.createQueryRunner();
    await client.startTransaction();
    try {
      for (const change of changes) await client.query(change);
      const inside = Object.create(owner) as DataSource;
      inside.query = (sql: string, params?: unknown[]) => client.query(sql, params) as Promise<never>;
      return await refusal(inside);
    } finally {
      await client.rollbackTransaction();
      await client.release();
    }
  }

  it('C.19 finds nothing to say after the migrations', async () => {
    expect(await refusal()).toBe('none');
    expect(warnings).toEqual([]);
  });

  it('C.19 is one query', async () => {
    let queries = 0;
    const counting = Object.create(owner) as DataSource;
    counting.query = (sql: string, params?: unknown[]) => {
      queries += 1;
      return owner.query(sql, params);
    };
    await requireSchema(counting);
    expect(queries).toBe(1);
  });

  it.each<[string, (t: typeof table) => string, string]>([
    [
      'a column that is missing',
      (t) => `ALTER TABLE ${t('a2a_tasks')} DROP COLUMN snapshot_version`,
      'a2a_tasks: has no column snapshot_version',
    ],
    [
      'a type that another one has taken the place of',
      (t) => `ALTER TABLE ${t('a2a_tasks')} ALTER COLUMN version TYPE bigint`,
      'a2a_tasks: .version is of type bigint instead of integer',
    ],
    [
      'times without their zone',
      (t) => `ALTER TABLE ${t('a2a_task_leases')} ALTER COLUMN expires_at TYPE timestamp`,
      'a2a_task_leases: .expires_at is of type timestamp without time zone instead of timestamp with time zone',
    ],
    [
      'a column that takes no NULL',
      (t) => `ALTER TABLE ${t('a2a_task_leases')} ALTER COLUMN holder SET NOT NULL`,
      'a2a_task_leases: .holder is NOT NULL, and has to take NULL',
    ],
    [
      'a default that is missing',
      (t) => `ALTER TABLE ${t('a2a_task_events')} ALTER COLUMN created_at DROP DEFAULT`,
      'a2a_task_events: .created_at has no default',
    ],
    [
      'an identity that is missing',
      (t) => `ALTER TABLE ${t('a2a_task_leases')} ALTER COLUMN generation DROP IDENTITY`,
      'a2a_task_leases: .generation has no identity',
    ],
    [
      'a column of somebody else’s that nobody fills',
      (t) => `ALTER TABLE ${t('a2a_tasks')} ADD COLUMN cost_centre text NOT NULL`,
      'a2a_tasks: .cost_centre is NOT NULL without a default, and A2AClusterModule does not know it',
    ],
    [
      'a primary key that is missing',
      (t) => `DO $$ BEGIN EXECUTE (SELECT format('ALTER TABLE ${t('a2a_task_events')} DROP CONSTRAINT %I', conname)
                FROM pg_constraint WHERE conrelid = '${t('a2a_task_events')}'::regclass AND contype = 'p'); END $$`,
      'a2a_task_events: has no unique index on (task_no, version)',
    ],
    [
      'a unique constraint that is missing: I1 rests on it',
      (t) => `DO $$ BEGIN EXECUTE (SELECT format('ALTER TABLE ${t('a2a_task_leases')} DROP CONSTRAINT %I', conname)
                FROM pg_constraint WHERE conrelid = '${t('a2a_task_leases')}'::regclass AND contype = 'u'); END $$`,
      'a2a_task_leases: has no unique index on (task_no)',
    ],
  ])('C.19 refuses %s, and says to run the migrations', async (_what, change, said) => {
    const [name, rest] = said.split(': ') as [string, string];
    const message = await refusalAfter(change(table));
    expect(message).toContain(`${shown(name)}${rest.startsWith('.') ? '' : ' '}${rest}`);
    expect(message).toContain('add ...A2A_CLUSTER_MIGRATIONS');
  });

  it('C.19 refuses a unique constraint that is checked at the end of a transaction: ON CONFLICT takes none', async () => {
    const leases = table('a2a_task_leases');
    const message = await refusalAfter(
      `DO $$ BEGIN EXECUTE (SELECT format('ALTER TABLE ${leases} DROP CONSTRAINT %I', conname)
         FROM pg_constraint WHERE conrelid = '${leases}'::regclass AND contype = 'u'); END $$`,
      `ALTER TABLE ${leases} ADD UNIQUE (task_no) DEFERRABLE`,
    );
    expect(message).toContain(`${shown('a2a_task_leases')} has no unique index on (task_no)`);
  });

  it('C.19 says all that is wrong at once', async () => {
    const message = await refusalAfter(
      `ALTER TABLE ${table('a2a_tasks')} DROP COLUMN context_id`,
      `ALTER TABLE ${table('a2a_task_leases')} DROP COLUMN kind`,
    );
    expect(message).toContain(`${shown('a2a_tasks')} has no column context_id`);
    expect(message).toContain(`${shown('a2a_task_leases')} has no column kind`);
  });

  it('C.19 takes what goes beyond it: columns with defaults, indexes, names and orders of one’s own', async () => {
    const tasks = table('a2a_tasks');
    const message = await refusalAfter(
      `ALTER TABLE ${tasks} ADD COLUMN region text NOT NULL DEFAULT 'eu', ADD COLUMN note text`,
      `ALTER TABLE ${tasks} ADD COLUMN row_no bigint GENERATED ALWAYS AS IDENTITY`,
      `ALTER TABLE ${tasks} ADD COLUMN length integer GENERATED ALWAYS AS (length(snapshot)) STORED`,
      `CREATE INDEX ON ${tasks} ((lower(context_id)))`,
      `CREATE UNIQUE INDEX renamed ON ${table('a2a_task_leases')} (task_no)`,
      `DO $$ BEGIN EXECUTE (SELECT format('ALTER TABLE ${table('a2a_task_leases')} DROP CONSTRAINT %I', conname)
         FROM pg_constraint WHERE conrelid = '${table('a2a_task_leases')}'::regclass AND contype = 'u'); END $$`,
    );
    expect(message).toBe('none');
    expect(warnings).toEqual([]);
  });

  it('C.19 warns of an index that is missing, naming it, and starts', async () => {
    const drop = (condition: string): string =>
      `DO $$ BEGIN EXECUTE (SELECT format('DROP INDEX %s', indexrelid::regclass) FROM pg_index
         WHERE indrelid = '${table('a2a_tasks')}'::regclass AND ${condition}); END $$`;
    expect(
      await refusalAfter(drop("pg_get_indexdef(indexrelid) LIKE '%(tenant, owner, agent, state_since, task_no)'")),
    ).toBe('none');
    expect(warnings).toEqual([
      expect.stringContaining(`${shown('a2a_tasks')} has no index on (tenant, owner, agent, state_since, task_no)`),
    ]);
    warnings.length = 0;
    expect(await refusalAfter(drop("pg_get_indexdef(indexrelid) LIKE '%COMPLETED%' LIMIT 1"))).toBe('none');
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(
      /a2a_tasks" has \d of \d: index on \(agent, state_since\) WHERE .*index on \(agent, state_since\) WHERE/,
    );
  });

  describe('by a role that is not their owner', () => {
    const dataSources: DataSource[] = [];

    afterEach(() => Promise.all(dataSources.splice(0).map((dataSource) => dataSource.destroy())));

    const asRole = async (): Promise<DataSource> => {
      const url = new URL(db.url);
      url.username = role;
      url.password = 'secret';
      const made = new DataSource({ ...options, entities: A2A_CLUSTER_ENTITIES, type: 'postgres', url: url.href });
      dataSources.push(await made.initialize());
      return made;
    };

    const tables = (): Promise<{ name: string }[]> =>
      db.query(
        `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
          WHERE schemaname = $1 AND tablename LIKE $2 ORDER BY 1`,
        [schema, `${prefix}a2a\\_%`],
      );

    const grantAll = async (): Promise<void> => {
      await db.query(`GRANT USAGE ON SCHEMA "${schema}" TO ${role}`);
      for (const { name } of await tables()) {
        await db.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${name} TO ${role}`);
      }
      await db.query(`GRANT USAGE ON ALL SEQUENCES IN SCHEMA "${schema}" TO ${role}`);
    };

    beforeEach(grantAll);

    it('C.19 that has the rights it needs is not refused', async () => {
      const dataSource = await asRole();
      expect(await dataSource.query('SELECT current_user AS role')).toEqual([{ role }]);
      expect(await refusal(dataSource)).toBe('none');
      expect(warnings).toEqual([]);
    });

    it.each(['SELECT', 'INSERT', 'UPDATE', 'DELETE'])('C.19 and may not %s is told the GRANT', async (right) => {
      await db.query(`REVOKE ${right} ON ${table('a2a_push_configs')} FROM ${role}`);
      const message = await refusal(await asRole());
      expect(message).toContain(`GRANT ${right} ON ${shown('a2a_push_configs')} TO ${role}`);
      expect(message.match(/GRANT/g)).toHaveLength(1);
    });

    it('C.19 and may not draw from the sequence of the tasks is told the GRANT', async () => {
      await db.query(`REVOKE USAGE ON ALL SEQUENCES IN SCHEMA "${schema}" FROM ${role}`);
      const message = await refusal(await asRole());
      expect(message).toMatch(new RegExp(`GRANT USAGE ON SEQUENCE \\S*${prefix}a2a_tasks_task_no_seq"? TO ${role}`));
    });

    it('C.19 and has its rights by columns is not refused', async () => {
      const columns = await db.query<{ list: string }>(
        `SELECT string_agg(attname, ', ') AS list FROM pg_attribute
          WHERE attrelid = '${table('a2a_tasks')}'::regclass AND attnum > 0 AND NOT attisdropped`,
      );
      const { list } = columns[0]!;
      await db.query(`REVOKE ALL ON ${table('a2a_tasks')} FROM ${role}`);
      await db.query(
        `GRANT SELECT (${list}), INSERT (${list}), UPDATE (${list}), DELETE ON ${table('a2a_tasks')} TO ${role}`,
      );
      expect(await refusal(await asRole())).toBe('none');
    });

    it('C.19 and may not look into the schema is told the GRANT', async () => {
      await db.query(`REVOKE USAGE ON SCHEMA "${schema}" FROM ${role}, PUBLIC`);
      try {
        expect(await refusal(await asRole())).toMatch(new RegExp(`GRANT USAGE ON SCHEMA "?${schema}"? TO ${role}`));
      } finally {
        if (schema === 'public') await db.query('GRANT USAGE ON SCHEMA public TO PUBLIC');
      }
    });
  });

  it('C.19 does not wait for a migration that has locked the tables', async () => {
    const migration = owner.createQueryRunner();
    await migration.startTransaction();
    try {
      await migration.query(`LOCK TABLE ${table('a2a_tasks')} IN ACCESS EXCLUSIVE MODE`);
      expect(await refusal()).toBe('none');
    } finally {
      await migration.rollbackTransaction();
      await migration.release();
    }
  });
});
