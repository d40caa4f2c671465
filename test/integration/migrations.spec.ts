import type { Client } from 'pg';
import type { DataSource, Logger as TypeOrmLogger, QueryRunner } from 'typeorm';
import { boundedStep } from '../../libs/a2a-cluster/src/postgres/schema/migrations/bounded-step.js';
import { MigrationBlockedError } from '../../libs/a2a-cluster/src/errors/migration-blocked.error.js';
import { A2A_CLUSTER_MIGRATIONS } from '../../libs/a2a-cluster/src/postgres/schema/entities.js';
import { createTestDatabase, type TestDatabase } from '../helpers/database.js';
import { Deferred, within } from '../../tools/harness/wait.js';
import { holdLock, untilBlocked } from './rows.fixture.js';

/** As a step of a migration waits for a lock, in ms: what boundedStep has by default. */
const LOCK_TIMEOUT_MS = 2_000;
/** Ends a test's own statement that is kept waiting for longer than any step may wait. */
const KEPT_WAITING_MS = LOCK_TIMEOUT_MS + 3_000;

class RecordedStatements implements TypeOrmLogger {
  readonly statements: string[] = [];
  logQuery(query: string): void {
    this.statements.push(query);
  }
  logQueryError = (): void => undefined;
  logQuerySlow = (): void => undefined;
  logSchemaBuild = (): void => undefined;
  logMigration = (): void => undefined;
  log = (): void => undefined;
}

describe('The library’s migrations', () => {
  let db: TestDatabase;
  let dataSource: DataSource;
  const recorded = new RecordedStatements();

  beforeAll(async () => {
    db = await createTestDatabase();
    dataSource = await db.dataSource({ logger: recorded, logging: true });
  });

  afterAll(() => db.drop());

  /** Reads, and then does nothing: its transaction keeps a lock on the tasks that any ALTER or DROP has to wait for. */
  const idleReader = () => holdLock(db, 'SELECT /* a report */ count(*) FROM a2a_tasks');

  it('set a bound for locks before each statement that changes the schema, and take it back', async () => {
    recorded.statements.length = 0;
    for (const _ of A2A_CLUSTER_MIGRATIONS) await dataSource.undoLastMigration();
    await dataSource.runMigrations();
    let bound = 0;
    const unbounded: string[] = [];
    const changes: string[] = [];
    for (const statement of recorded.statements) {
      const set = /^SET LOCAL lock_timeout = (\d+)$/.exec(statement);
      if (set) bound = Number(set[1]);
      if (!/^(CREATE|ALTER|DROP) /.test(statement) || statement.includes('"migrations"')) continue;
      changes.push(statement);
      if (bound !== LOCK_TIMEOUT_MS) unbounded.push(statement);
    }
    expect(unbounded).toEqual([]);
    expect(changes.length).toBeGreaterThan(2 * A2A_CLUSTER_MIGRATIONS.length);
    expect(bound).toBe(0);
  });

  it.each(['all', 'each', 'none'] as const)(
    'let others read while one waits for an idle reader, and go through once it has ended (transactions: %s)',
    async (transaction) => {
      const reader = await idleReader();
      const others = await db.connect();
      await others.query(`SET lock_timeout = ${KEPT_WAITING_MS}`);
      const undone = dataSource.undoLastMigration({ transaction });
      undone.catch(() => undefined);
      try {
        await untilBlocked(db);
        // Stands behind the DROP, and fails where that waits for longer than its own bound.
        await others.query('SELECT count(*) FROM a2a_tasks');
      } finally {
        await reader.release();
        await within(undone, 30_000, 'the migration is undone').finally(() => others.end());
      }
      expect(await dataSource.showMigrations()).toBe(true);
      await dataSource.runMigrations({ transaction });
      expect(await dataSource.showMigrations()).toBe(false);
    },
  );

  describe('in a step that never gets its lock', () => {
    let reader: Awaited<ReturnType<typeof holdLock>>;
    let runner: QueryRunner;

    beforeEach(async () => {
      reader = await idleReader();
      runner = dataSource.createQueryRunner();
    });

    afterEach(async () => {
      if (runner.isTransactionActive) await runner.rollbackTransaction();
      await runner.release();
      await reader.release();
    });

    const alter = (query: QueryRunner): Promise<void> =>
      query.query('ALTER TABLE a2a_tasks ADD COLUMN tried integer').then(() => undefined);

    const errorOf = (work: Promise<void>): Promise<unknown> => work.catch((error: unknown) => error);

    it.each(['in a transaction', 'on its own'])(
      'name the session that holds it, after their bound (%s)',
      async (how) => {
        if (how === 'in a transaction') await runner.startTransaction();
        const error = await errorOf(boundedStep(runner, alter, { lockTimeoutMs: 300, giveUpAfterMs: 700 }));
        expect(error).toBeInstanceOf(MigrationBlockedError);
        const { message, blockedBy } = error as MigrationBlockedError;
        expect(blockedBy).toHaveLength(1);
        expect(message).toContain('got no lock on its tables within 700 ms');
        expect(message).toContain(`session ${blockedBy[0]!.pid} (application 'a2a-cluster-test', idle in transaction`);
        expect(message).toContain('SELECT /* a report */ count(*) FROM a2a_tasks');
        // Nothing of it was done, and the connection is as it was.
        expect(await db.query("SELECT FROM pg_attribute WHERE attname = 'tried'")).toEqual([]);
        expect(runner.isTransactionActive).toBe(how === 'in a transaction');
        expect(await runner.query('SHOW lock_timeout')).toEqual([{ lock_timeout: '0' }]);
      },
    );

    it('give up at once where others wait for what the transaction has locked before', async () => {
      await runner.startTransaction();
      await runner.query('LOCK TABLE a2a_push_configs IN ACCESS EXCLUSIVE MODE');
      const others: Client = await db.connect();
      const read = others.query('SELECT count(*) FROM a2a_push_configs');
      await untilBlocked(db);
      const error = await errorOf(boundedStep(runner, alter, { lockTimeoutMs: 300, giveUpAfterMs: 3_600_000 }));
      expect(error).toBeInstanceOf(MigrationBlockedError);
      expect((error as Error).message).toContain("migrationsTransactionMode: 'each'");
      await runner.rollbackTransaction();
      await read;
      await others.end();
    });
  });

  it('leave a bound that the app has set for its own migrations', async () => {
    const runner = dataSource.createQueryRunner();
    const inside = new Deferred<unknown>();
    try {
      await runner.startTransaction();
      await runner.query("SET LOCAL lock_timeout = '500ms'");
      await boundedStep(runner, async () => inside.resolve(await runner.query('SHOW lock_timeout')));
      expect(await inside.promise).toEqual([{ lock_timeout: '500ms' }]);
      expect(await runner.query('SHOW lock_timeout')).toEqual([{ lock_timeout: '500ms' }]);
    } finally {
      await runner.rollbackTransaction();
      await runner.release();
    }
  });
});
