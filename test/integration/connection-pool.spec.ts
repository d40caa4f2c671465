import type { Socket } from 'node:net';
import pg from 'pg';
import type { ClusterDatabase } from '../../libs/a2a-cluster/src/postgres/connection/cluster-database.js';
import { ConnectionPool } from '../../libs/a2a-cluster/src/postgres/connection/connection-pool.js';
import { isPassing, sqlState } from '../../libs/a2a-cluster/src/postgres/connection/database-errors.js';
import { DatabaseConnectionError } from '../../libs/a2a-cluster/src/errors/database-connection.error.js';
import { DatabaseTimeoutError } from '../../libs/a2a-cluster/src/errors/database-timeout.error.js';
import { eventually } from '../../tools/harness/wait.js';
import { useCluster } from './cluster.fixture.js';
import { holdLock, untilBlocked } from './rows.fixture.js';

const LOCK = 4711;
const WAIT = `SELECT pg_advisory_xact_lock_shared(${LOCK})`;
const APPLICATION = 'pool under test';

describe("The library's own connections", () => {
  const cluster = useCluster({ applicationName: APPLICATION, extra: { max: 2 } });

  const errorOf = (outcome: Promise<unknown>): Promise<unknown> =>
    outcome.then(
      () => undefined,
      (error: unknown) => error,
    );

  /** Sessions of the library's on the server, and what of them waits for a lock. */
  async function sessions(): Promise<{ open: number; waiting: number }> {
    const [row] = await cluster.db.query<{ open: number; waiting: number }>(
      `SELECT count(*)::integer AS open, count(*) FILTER (WHERE wait_event_type = 'Lock')::integer AS waiting
         FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`,
      [APPLICATION],
    );
    return row!;
  }

  /** As many statements as there are connections for, all of which wait for the lock. */
  async function hold(database: ClusterDatabase, statements: number) {
    const lock = await holdLock(cluster.db, `SELECT pg_advisory_xact_lock(${LOCK})`);
    const waiting = Array.from({ length: statements }, () => errorOf(database.query(WAIT)));
    await untilBlocked(cluster.db, statements);
    return { release: () => lock.release(), waiting };
  }

  it('A.1 thousands of calls that have given up are served to nobody when a stall is over', async () => {
    const database = cluster.database({ maxTimeoutMs: 10_000, maxConnections: 4 });
    const held = await hold(database, 2);
    const late = Array.from({ length: 6_000 }, () => errorOf(database.query('SELECT 1', [], 50)));
    const refusals = await Promise.all(late);
    expect(new Set(refusals.map((error) => (error as Error).name))).toEqual(
      new Set(['DatabaseTimeoutError', 'DatabaseOverloadedError']),
    );
    await held.release();
    expect(await Promise.all(held.waiting)).toEqual([undefined, undefined]);
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('A.1 more calls than can wait are refused with the reason, and the others are served', async () => {
    const database = cluster.database({ maxTimeoutMs: 10_000, maxConnections: 4 });
    const held = await hold(database, 2);
    const calls = Array.from({ length: 2_500 }, () => database.query<{ one: number }>('SELECT 1 AS one'));
    const outcomes = Promise.allSettled(calls);
    const refused = await errorOf(calls.at(-1)!);
    expect((refused as Error).message).toBe(
      '2000 calls wait for a connection to the database already: this one is refused.',
    );
    expect(isPassing(refused)).toBe(true);
    await held.release();
    const served = (await outcomes).filter(({ status }) => status === 'fulfilled');
    expect(served).toHaveLength(2_000);
  });

  it('A.4 a backend that waits for a lock is canceled once nobody waits for it', async () => {
    const database = cluster.database({ maxTimeoutMs: 60_000, maxConnections: 4 });
    const lock = await holdLock(cluster.db, `SELECT pg_advisory_xact_lock(${LOCK})`);
    expect(await errorOf(database.query(WAIT, [], 100))).toEqual(new DatabaseTimeoutError(100));
    await eventually(async () => (await sessions()).waiting === 0, { timeoutMs: 10_000 });
    const inTransaction = database.transaction((tx) => tx.query(WAIT), 100);
    expect(isPassing(await errorOf(inTransaction))).toBe(true);
    await eventually(async () => (await sessions()).waiting === 0, { timeoutMs: 10_000 });
    await lock.release();
  });

  it("A.4 a stall behind a lock takes no more sessions than the library's own", async () => {
    const database = cluster.database({ maxTimeoutMs: 60_000, maxConnections: 5 });
    const lock = await holdLock(cluster.db, `SELECT pg_advisory_xact_lock(${LOCK})`);
    for (let round = 0; round < 5; round += 1) {
      const given = await Promise.all(Array.from({ length: 20 }, () => errorOf(database.query(WAIT, [], 60))));
      expect(new Set(given.map((error) => (error as Error).name))).toEqual(new Set(['DatabaseTimeoutError']));
    }
    await eventually(async () => (await sessions()).waiting === 0, { timeoutMs: 10_000 });
    expect((await sessions()).open).toBeLessThanOrEqual(5 + 1); // TypeORM has opened one for itself
    await lock.release();
  });

  it('A.4 every session has limits of the server, whatever its role or database has', async () => {
    const { name } = cluster.db;
    await cluster.db.query(`ALTER DATABASE "${name}" SET statement_timeout = '300ms'`);
    await cluster.db.query(`ALTER DATABASE "${name}" SET idle_session_timeout = '5s'`);
    try {
      const database = cluster.database({ maxTimeoutMs: 8_000, maxTransactionMs: 4_000 });
      const rows = await database.query(
        `SELECT name, setting FROM pg_settings
          WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout')
          ORDER BY name`,
      );
      expect(rows).toEqual([
        { name: 'idle_in_transaction_session_timeout', setting: '4000' },
        { name: 'idle_session_timeout', setting: '0' },
        { name: 'lock_timeout', setting: '9000' },
        { name: 'statement_timeout', setting: '9000' },
      ]);
    } finally {
      await cluster.db.query(`ALTER DATABASE "${name}" RESET ALL`);
    }
  });

  it('A.4 a frozen process leaves nothing behind: the server ends its statement by itself', async () => {
    const database = cluster.database({ maxTimeoutMs: 60_000, serverLimitMs: 200 });
    const lock = await holdLock(cluster.db, `SELECT pg_advisory_xact_lock(${LOCK})`);
    const error = await errorOf(database.query(WAIT));
    expect([sqlState(error), isPassing(error)]).toEqual([expect.stringMatching(/^57014|55P03$/), true]);
    await lock.release();
  });

  it('B.5 a connection that takes no writes is not kept: once the server takes them, so does the pool', async () => {
    const database = cluster.database({ maxTimeoutMs: 10_000 });
    const write = () => database.query("UPDATE a2a_tasks SET context_id = 'x' WHERE task_no = 0");
    await write();
    await cluster.db.query(`ALTER DATABASE "${cluster.db.name}" SET default_transaction_read_only = on`);
    await cluster.db.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [
      APPLICATION,
    ]);
    await eventually(async () => (await sessions()).open === 0);
    try {
      expect(await errorOf(write())).toBeInstanceOf(DatabaseConnectionError);
      expect(await database.query('SELECT 1 AS one', [], 10_000, 'read')).toEqual([{ one: 1 }]);
    } finally {
      await cluster.db.query(`ALTER DATABASE "${cluster.db.name}" RESET ALL`);
    }
    await Promise.all(Array.from({ length: 10 }, write));
  });

  it('B.5 a session that becomes read only while it is open is closed by the first write that it refuses', async () => {
    const database = cluster.database({ maxTimeoutMs: 10_000 });
    const write = () => database.query("UPDATE a2a_tasks SET context_id = 'x' WHERE task_no = 0");
    await database.query('SET default_transaction_read_only = on');
    expect(sqlState(await errorOf(write()))).toBe('25006');
    await write();
  });

  it('B.8 an answer that lay in its socket while the event loop stood still counts', async () => {
    const database = cluster.database({ maxTimeoutMs: 10_000 });
    await database.open();
    const answer = database.query<{ one: number }>('SELECT 1 AS one FROM pg_sleep(0.05)', [], 100);
    await eventually(async () => (await sessions()).open > 1);
    const until = performance.now() + 300;
    while (performance.now() < until); // past its bound, with the answer there
    expect(await answer).toEqual([{ one: 1 }]);
  });

  it('B.17 what a server gives no further connection to goes on with those that there are', async () => {
    const role = `few_${process.pid}`;
    await cluster.db.query(`CREATE ROLE ${role} LOGIN PASSWORD 'few' CONNECTION LIMIT 4`);
    const dataSource = await cluster.db.dataSource({
      username: role,
      password: 'few',
      migrate: false,
      entities: [],
      extra: { user: role, password: 'few', max: 1 },
    });
    const database = cluster.database({ maxTimeoutMs: 10_000, maxConnections: 10 }, dataSource);
    try {
      await database.open();
      const lock = await holdLock(cluster.db, `SELECT pg_advisory_xact_lock(${LOCK})`);
      const waiting = [database.query(WAIT), database.query(WAIT)];
      await untilBlocked(cluster.db, 2);
      const calls = Array.from({ length: 30 }, () => database.query<{ one: number }>('SELECT 1 AS one'));
      const renewal = await database.query<{ one: number }>('SELECT 1 AS one', [], 5_000, 'renewal');
      expect(renewal).toEqual([{ one: 1 }]);
      await lock.release();
      await Promise.all(waiting);
      expect(await Promise.all(calls)).toHaveLength(30);
    } finally {
      await database.close();
      await dataSource.destroy();
      await eventually(async () => {
        const left = await cluster.db.query('SELECT FROM pg_stat_activity WHERE usename = $1', [role]);
        return left.length === 0;
      });
      await cluster.db.query(`DROP ROLE ${role}`);
    }
  });

  it('B.17 settings that cannot be read, and sessions that are never ready, cost the calls of their time only', async () => {
    const limits = { statementMs: 200, idleInTransactionMs: 200 };
    const { url } = cluster.db;
    const poolOf = (options: object) =>
      new ConnectionPool(Object.assign(new pg.Pool(options), { Client: pg.Client }), 4, limits);
    let stuck = true;
    const onConnect = (): Promise<void> => (stuck ? new Promise(() => undefined) : Promise.resolve());
    const unreadable = poolOf({ connectionString: `${url}?sslrootcert=missing.pem` });
    const neverReady = poolOf({ connectionString: url, onConnect });
    try {
      for (let at = 0; at < 6; at += 1) {
        await expect(unreadable.borrow('renewal', 2_000)).rejects.toMatchObject({ code: 'ENOENT' });
        await expect(neverReady.borrow('renewal', 2_000)).rejects.toThrow(DatabaseTimeoutError);
      }
      stuck = false;
      const lent = await neverReady.borrow('renewal', 2_000);
      lent.release();
    } finally {
      await unreadable.close(100);
      await neverReady.close(100);
    }
  });

  it('B.14 a connection that nobody uses is closed too where the server does not answer the goodbye', async () => {
    const clients: pg.Client[] = [];
    class Watched extends pg.Pool {
      readonly Client = pg.Client;

      constructor(options: object) {
        super(options);
        this.on('connect', (client) => clients.push(client as unknown as pg.Client));
      }
    }
    const limits = { statementMs: 2_000, idleInTransactionMs: 2_000 };
    const pool = new ConnectionPool(new Watched({ connectionString: cluster.db.url }), 4, limits);
    (await pool.borrow('turn', 2_000)).release();
    const { stream } = (clients[0] as unknown as { connection: { stream: Socket } }).connection;
    // What the server says from here on is not heard: its answer to the goodbye is the end of the connection.
    stream.pause();
    await pool.close(100);
    expect(stream.destroyed).toBe(true);
  });

  it('B.14 closing does not wait for a server that does not answer', async () => {
    const database = cluster.database({ maxTimeoutMs: 60_000 });
    const held = await hold(database, 1);
    await database.close();
    expect(isPassing(await held.waiting[0])).toBe(true);
    const after = await errorOf(database.query('SELECT 1'));
    expect([(after as Error).message, isPassing(after)]).toEqual([
      'This replica is shutting down and has closed its connections to the database; ask another one.',
      false,
    ]);
    await held.release();
  });
});
