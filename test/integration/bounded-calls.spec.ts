import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import pg from 'pg';
import { isPassing, sqlState } from '../../libs/a2a-cluster/src/postgres/connection/database-errors.js';
import { DedicatedConnection } from '../../libs/a2a-cluster/src/postgres/connection/dedicated-connection.js';
import { CommitOutcomeUnknownError } from '../../libs/a2a-cluster/src/errors/commit-outcome-unknown.error.js';
import { DatabaseTimeoutError } from '../../libs/a2a-cluster/src/errors/database-timeout.error.js';
import { pooledConnections } from '../helpers/database.js';
import { Deferred, eventually, within } from '../../tools/harness/wait.js';
import { useCluster } from './cluster.fixture.js';
import { holdLock, holdTask, untilBlocked } from './rows.fixture.js';

/** Long for a statement that is answered, short for one that is not. */
const BOUND_MS = 400;

describe('Calls to the database are bounded', () => {
  const cluster = useCluster();
  let silent: Server;
  let sockets: Socket[] = [];

  /** Accepts connections and never says a word. */
  beforeAll(async () => {
    silent = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => undefined);
    }).listen(0, '127.0.0.1');
    await once(silent, 'listening');
  });

  afterAll(async () => {
    sockets.forEach((socket) => socket.destroy());
    sockets = [];
    silent.close();
    await once(silent, 'close');
  });

  const toSilence = (): pg.Client => new pg.Client({ host: '127.0.0.1', port: (silent.address() as AddressInfo).port });
  const toDatabase = (): pg.Client => new pg.Client({ connectionString: cluster.db.url });

  const errorOf = (outcome: Promise<unknown>): Promise<unknown> =>
    within(
      outcome.then(() => undefined).catch((error: unknown) => error),
      10_000,
      'the call comes back',
    );

  /** A statement that is not answered while `work` goes on. */
  async function unanswered(work: (statement: string) => Promise<void>): Promise<void> {
    const hold = await holdLock(cluster.db, 'SELECT pg_advisory_xact_lock(55)');
    await work('SELECT pg_advisory_xact_lock_shared(55)');
    await hold.release();
  }

  it('O13 a connection to a server that says nothing is given up, and the next use makes another', async () => {
    const clients = [toSilence(), toDatabase()];
    const lost: Error[] = [];
    const connection = new DedicatedConnection(
      () => clients.shift()!,
      undefined,
      (error) => lost.push(error),
    );
    expect(await errorOf(connection.query('SELECT 1', [], BOUND_MS))).toEqual(new DatabaseTimeoutError(BOUND_MS));
    expect(lost).toHaveLength(1);
    expect(await connection.query('SELECT 1 AS one', [], 10_000)).toEqual([{ one: 1 }]);
    await connection.close();
    expect(lost).toHaveLength(1);
  });

  it('O13 a connection that was made and is then silent: the same', async () => {
    const connection = new DedicatedConnection(toDatabase);
    await connection.connect(10_000);
    await unanswered(async (statement) => {
      expect(await errorOf(connection.query(statement, [], BOUND_MS))).toBeInstanceOf(DatabaseTimeoutError);
      expect(await connection.query('SELECT 1 AS one', [], 10_000)).toEqual([{ one: 1 }]);
    });
    await connection.close();
    expect(await errorOf(connection.connect(10_000))).toEqual(new Error('The connection is closed.'));
  });

  it('O13 a backend that is killed is noticed at once, and replaced', async () => {
    const lost = new Deferred<Error>();
    const connection = new DedicatedConnection(toDatabase, undefined, (error) => lost.resolve(error));
    const [row] = await connection.query<{ pid: number }>('SELECT pg_backend_pid() AS pid', [], 10_000);
    await cluster.db.query('SELECT pg_terminate_backend($1)', [row!.pid]);
    await within(lost.promise, 10_000, 'the loss is told');
    const [other] = await connection.query<{ pid: number }>('SELECT pg_backend_pid() AS pid', [], 10_000);
    expect(other!.pid).not.toBe(row!.pid);
    await connection.close();
  });

  it('C.19 a statement that the server refuses leaves the connection as it is', async () => {
    const lost: Error[] = [];
    const connection = new DedicatedConnection(toDatabase, undefined, (error) => lost.push(error));
    const pid = () => connection.query<{ pid: number }>('SELECT pg_backend_pid() AS pid', [], 10_000);
    const before = await pid();
    for (const refused of ['SELEC 1', 'SELECT 1 / 0', 'SELECT * FROM nowhere']) {
      expect(sqlState(await errorOf(connection.query(refused, [], 10_000)))).toMatch(/^42601|22012|42P01$/);
    }
    expect(await pid()).toEqual(before);
    expect(lost).toEqual([]);
    await connection.close();
  });

  it('B.5 one that has reached a server which takes no writes is given up all the same', async () => {
    const connection = new DedicatedConnection(toDatabase);
    const pid = () => connection.query<{ pid: number }>('SELECT pg_backend_pid() AS pid', [], 10_000);
    const before = await pid();
    await connection.query('SET default_transaction_read_only = on', [], 10_000);
    const refused = await errorOf(connection.query('CREATE TABLE refused (a integer)', [], 10_000));
    expect(sqlState(refused)).toBe('25006');
    expect(await pid()).not.toEqual(before);
    await connection.close();
  });

  it('I3 a statement that was given up while it waited for its turn is not sent later', async () => {
    const connection = new DedicatedConnection(toDatabase);
    await cluster.db.query('CREATE TABLE sent (a integer)');
    await unanswered(async (statement) => {
      const first = errorOf(connection.query(statement, [], 2 * BOUND_MS));
      const second = errorOf(connection.query('INSERT INTO sent VALUES (1)', [], BOUND_MS));
      expect(await second).toBeInstanceOf(DatabaseTimeoutError);
      await first;
    });
    await connection.query('SELECT 1', [], 10_000);
    expect(await cluster.db.query('SELECT FROM sent')).toEqual([]);
    await connection.close();
  });

  it('B.8 an answer that lies there after the event loop was blocked is read, and not declared missing', async () => {
    const connection = new DedicatedConnection(toDatabase);
    await connection.connect(10_000);
    for (const boundMs of [100, BOUND_MS]) {
      const answer = connection.query('SELECT 1 AS one', [], boundMs);
      const until = performance.now() + 2 * BOUND_MS;
      while (performance.now() < until);
      expect(await answer).toEqual([{ one: 1 }]);
    }
    await connection.close();
  });

  it('O13 closing does not wait for a server that says nothing; what is under way ends by its own bound', async () => {
    const connection = new DedicatedConnection(toSilence);
    const connecting = errorOf(connection.connect(2_000));
    await eventually(() => sockets.length > 0);
    await within(connection.close(), 1_500, 'the connection closes');
    expect(await connecting).toBeInstanceOf(Error);
  });

  it('I6 a statement that hangs is given up, and its connection is not used again', async () => {
    const database = cluster.database({ maxTimeoutMs: BOUND_MS });
    await unanswered(async (statement) => {
      expect(await errorOf(database.query(statement))).toEqual(new DatabaseTimeoutError(BOUND_MS));
      expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
      await eventually(() => pooledConnections(cluster.dataSource) === 1);
    });
  });

  it('I6 a caller’s own bound can only be shorter', async () => {
    const database = cluster.database({ maxTimeoutMs: BOUND_MS });
    await unanswered(async (statement) => {
      expect(await errorOf(database.query(statement, [], 60_000))).toEqual(new DatabaseTimeoutError(BOUND_MS));
      expect(await errorOf(database.query(statement, [], 100))).toEqual(new DatabaseTimeoutError(100));
    });
  });

  it('O60 a transaction that waits for a lock is over within its bound, and its locks with it', async () => {
    const database = cluster.database({ maxTimeoutMs: 10_000, maxTransactionMs: BOUND_MS });
    const [first, second] = [await (await cluster.replica()).stored(), await (await cluster.replica()).stored()];
    const hold = await holdTask(cluster.db, second.taskNo);
    const lock = 'SELECT FROM a2a_tasks WHERE task_no = $1 FOR UPDATE';
    const waiting = errorOf(
      database.transaction(async (tx) => {
        await tx.query(lock, [first.taskNo]);
        await tx.query(lock, [second.taskNo]);
      }),
    );
    const error = await waiting;
    expect(isPassing(error)).toBe(true);
    const free = await holdTask(cluster.db, first.taskNo); // would wait for ever otherwise
    await Promise.all([free.release(), hold.release()]);
  });

  it('O60 a process that freezes inside a transaction loses it on the server: the lease is claimable', async () => {
    const [frozen, b] = [await cluster.replica(), await cluster.replica()];
    const database = cluster.database({ maxTimeoutMs: 10_000, maxTransactionMs: BOUND_MS });
    const { taskNo } = await frozen.working();
    await cluster.db.query("UPDATE a2a_task_leases SET expires_at = clock_timestamp() - interval '1 second'");
    const thawed = new Deferred();
    const locked = new Deferred();
    const outcome = errorOf(
      database.transaction(async (tx) => {
        await tx.query('SELECT FROM a2a_task_leases WHERE task_no = $1 FOR UPDATE', [taskNo]);
        locked.resolve();
        await thawed.promise;
        await tx.query('UPDATE a2a_tasks SET context_id = $2 WHERE task_no = $1', [taskNo, 'stale']);
      }),
    );
    await locked.promise;
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 0 });
    await eventually(async () => (await b.sweeper.runOnce()).claimed === 1, { timeoutMs: 10_000 });
    thawed.resolve();
    expect(isPassing(await outcome)).toBe(true);
    expect(await cluster.db.query("SELECT FROM a2a_tasks WHERE context_id = 'stale'")).toEqual([]);
  });

  it('O53 a connection that breaks at COMMIT is told apart from one that breaks before it', async () => {
    const database = cluster.database({ maxTimeoutMs: 10_000 });
    await cluster.db.query(`
      CREATE TABLE slow_commits (id integer);
      CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock_shared(54); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON slow_commits DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION slow_commit()`);
    const kill = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    const hold = await holdLock(cluster.db, 'SELECT pg_advisory_xact_lock(54)');
    const atCommit = errorOf(database.transaction((tx) => tx.query('INSERT INTO slow_commits VALUES (1)')));
    await untilBlocked(cluster.db);
    await cluster.db.query(kill);
    expect(await atCommit).toBeInstanceOf(CommitOutcomeUnknownError);
    const before = errorOf(database.transaction((tx) => tx.query('SELECT pg_advisory_xact_lock_shared(54)')));
    await untilBlocked(cluster.db);
    await cluster.db.query(kill);
    const error = await before;
    expect(error).not.toBeInstanceOf(CommitOutcomeUnknownError);
    expect([isPassing(error), sqlState(error)]).toEqual([true, '57P01']);
    await hold.release();
    expect(await cluster.db.query('SELECT * FROM slow_commits')).toEqual([]);
  });

  it('I6 a defect is no passing trouble, whatever it is wrapped in', async () => {
    const database = cluster.database({ maxTimeoutMs: 10_000 });
    const syntax = await errorOf(database.query('SELEC 1'));
    const unique = await errorOf(
      database.transaction((tx) =>
        tx.query("INSERT INTO a2a_tasks (task_no, tenant) OVERRIDING SYSTEM VALUE VALUES (1, 'x')"),
      ),
    );
    expect([sqlState(syntax), isPassing(syntax)]).toEqual(['42601', false]);
    expect([sqlState(unique), isPassing(unique)]).toEqual(['23502', false]);
  });
});
