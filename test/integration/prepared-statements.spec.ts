import { ClusterDatabase } from '../../libs/a2a-cluster/src/postgres/connection/cluster-database.js';
import { isPassing } from '../../libs/a2a-cluster/src/postgres/connection/database-errors.js';
import { useCluster } from './cluster.fixture.js';

describe('Prepared statements', () => {
  const cluster = useCluster({ extra: { max: 1 } });

  const preparedThere = () =>
    database.query<{ statement: string }>('SELECT statement FROM pg_prepared_statements ORDER BY prepare_time');

  /** As a pooler in transaction mode: the server's session is another one than it was. */
  const anotherSession = () => database.query('DEALLOCATE ALL');

  let database: ClusterDatabase;
  let text: string;
  let other: string;
  let tests = 0;

  beforeEach(() => {
    database = cluster.database({ maxTimeoutMs: 10_000 });
    // The one connection is that of the test before: statements of one's own are new to it.
    tests += 1;
    text = database.prepared({ text: `SELECT $1::integer + 1 AS next, ${tests} AS test` }).text;
    other = database.prepared({ text: `SELECT $1::integer - 1 AS next, ${tests} AS test` }).text;
  });

  it('are prepared once by a connection, inside and outside of transactions; others are not', async () => {
    expect(await database.query(text, [1])).toEqual([{ next: 2, test: tests }]);
    expect(await database.transaction((tx) => tx.query(text, [2]))).toEqual([{ next: 3, test: tests }]);
    await database.query('SELECT $1::integer', [1]);
    expect(await preparedThere()).toEqual([{ statement: text }]);
  });

  it('I6 are sent without a name for ever after a session does not know them, and none is lost for it', async () => {
    await database.query(text, [1]);
    await anotherSession();
    expect(await database.query(text, [2])).toEqual([{ next: 3, test: tests }]);
    expect(await database.query(other, [2])).toEqual([{ next: 1, test: tests }]);
    expect(await preparedThere()).toEqual([]);
  });

  it('I6 fail a transaction as passing trouble then, and its next try goes through', async () => {
    const work = () => database.transaction((tx) => tx.query(text, [2]));
    await work();
    await anotherSession();
    expect(isPassing(await work().catch((error: unknown) => error))).toBe(true);
    expect(await work()).toEqual([{ next: 3, test: tests }]);
  });

  it('I6 outlive a change of the tables they read, and are prepared as before', async () => {
    await database.query('CREATE TABLE altered (a integer)');
    const all = database.prepared({ text: 'SELECT * FROM altered' }).text;
    expect(await database.query(all)).toEqual([]);
    await database.query('ALTER TABLE altered ADD COLUMN b integer');
    await database.query('INSERT INTO altered VALUES (1, 2)');
    expect(await database.query(all)).toEqual([{ a: 1, b: 2 }]);
    // Planned anew, and the others as before.
    await database.query(text, [1]);
    expect((await preparedThere()).map(({ statement }) => statement)).toEqual([all, all, text]);
  });
});
