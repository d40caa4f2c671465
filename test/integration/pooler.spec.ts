import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import pg from 'pg';
import { DataSource } from 'typeorm';
import { A2A_CLUSTER_ENTITIES } from '../../libs/a2a-cluster/src/postgres/schema/entities.js';
import { PGBOUNCER, Pooler } from '../helpers/pooler.js';
import { DatabaseTimeoutError } from '../../libs/a2a-cluster/src/errors/database-timeout.error.js';
import { eventually } from '../../tools/harness/wait.js';
import { holdLock, untilBlocked } from './rows.fixture.js';
import { createCluster, type Replica, useCluster } from './cluster.fixture.js';
import { COMPLETED, status } from './events.fixture.js';

/** Skipped, and counted as skipped, where there is no PgBouncer. */
const withPooler = PGBOUNCER ? describe : describe.skip;

withPooler('Behind a pooler', () => {
  let pooler: Pooler | undefined;
  // Before the look at what is left: the pooler keeps the server's sessions.
  afterAll(() => pooler?.stop());
  const cluster = useCluster();
  let warnings: string[];
  const dataSources: DataSource[] = [];
  const replicas: Replica[] = [];

  beforeAll(async () => {
    pooler = await Pooler.start(cluster.db.url, {
      one: { mode: 'transaction', size: 1 },
      some: { mode: 'transaction', size: 10 },
      sessions: { mode: 'session', size: 20 },
    });
  });

  beforeEach(() => {
    warnings = [];
    jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => void warnings.push(String(message)));
  });

  afterEach(async () => {
    jest.restoreAllMocks();
    await Promise.all(replicas.splice(0).map((replica) => replica.close()));
    await Promise.all(dataSources.splice(0).map((dataSource) => dataSource.destroy()));
  });

  async function through(pool: string, max = 5): Promise<DataSource> {
    const made = new DataSource({
      type: 'postgres',
      url: pooler!.url(pool),
      entities: A2A_CLUSTER_ENTITIES,
      extra: { max },
    });
    dataSources.push(await made.initialize());
    return made;
  }

  async function replica(dataSource: DataSource): Promise<Replica> {
    const made = await createCluster(dataSource, { notify: true });
    replicas.push(made);
    await made.poller.runOnce();
    return made;
  }

  const session = async (pool: string): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: pooler!.url(pool) });
    await client.connect();
    return client;
  };

  /** What each session of the server behind a pool has set as its time-out for unread data. */
  async function userTimeouts(pool: string, sessions: number): Promise<string[]> {
    const clients = await Promise.all(Array.from({ length: sessions }, () => session(pool)));
    await Promise.all(clients.map((client) => client.query('BEGIN')));
    const answers = await Promise.all(
      clients.map((client) => client.query<{ ms: string }>("SELECT current_setting('tcp_user_timeout') AS ms")),
    );
    await Promise.all(clients.map((client) => client.end()));
    return answers.map(({ rows }) => rows[0]!.ms);
  }

  const ofWakeups = (): string[] => warnings.filter((text) => text.includes('wake-ups'));

  it.each([
    ['one', 1],
    ['some', 10],
  ])(
    'C.19 in transaction mode that carries no notifications it is said once, and the poll does their work (pool %s)',
    async (pool, size) => {
      const [a, b] = [await replica(await through(pool)), await replica(await through(pool))];
      expect(ofWakeups()).toHaveLength(2); // one for each replica
      expect(ofWakeups()[0]).toMatch(/pooler that carries none \(transaction mode\).*streams\.notify: false/);
      // No session listens for it any more, nor is one made for each look and each wake-up.
      for (let round = 0; round < 10; round += 1) await Promise.all([a.poller.runOnce(), b.poller.runOnce()]);
      const { scope, loop, turn, taskNo } = await a.working();
      const seen: number[] = [];
      const following = (async () => {
        for await (const { version } of b.stream.follow(taskNo, 0, new AbortController().signal)) seen.push(version);
      })();
      loop.add(status(scope, COMPLETED));
      await turn.flush();
      await eventually(async () => {
        await b.poller.runOnce();
        return seen.length === 2;
      });
      await following;
      expect(ofWakeups()).toHaveLength(2);
      expect(await userTimeouts(pool, size)).toEqual(Array.from({ length: size }, () => '0'));
    },
  );

  it('C.19 in session mode wake-ups get through, and nothing is said', async () => {
    const [a, b] = [await replica(await through('sessions')), await replica(await through('sessions'))];
    expect(warnings).toEqual([]);
    const { scope, loop, turn, taskNo } = await a.working();
    const follower = b.stream.follow(taskNo, 1, new AbortController().signal);
    const next = follower.next();
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    expect((await next).value).toMatchObject({ version: 2 }); // nobody polls
    await follower.return(undefined);
  });

  it('C.19 a session that does not know a prepared statement turns preparation off, and it is said once', async () => {
    const database = cluster.database({ maxTimeoutMs: 10_000, maxConnections: 4 }, await through('some', 1));
    const text = database.prepared({ text: 'SELECT $1::integer + 1 AS next' }).text;
    expect(await database.query(text, [1])).toEqual([{ next: 2 }]);
    // The session of the server that knows it is in use: the next one does not.
    const others = await Promise.all(Array.from({ length: 9 }, () => session('some')));
    await Promise.all(others.map((client) => client.query('BEGIN')));
    expect(await database.query(text, [2])).toEqual([{ next: 3 }]);
    await Promise.all(others.map((client) => client.end()));
    for (const given of [3, 4]) expect(await database.query(text, [given])).toEqual([{ next: given + 1 }]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/not prepared any more.*pooler in transaction mode/);
  });

  it.each(['some', 'sessions'])(
    'A.4 each statement has limits of the server, and none of them is left for others (pool %s)',
    async (pool) => {
      const database = cluster.database({ maxTimeoutMs: 9_000, maxTransactionMs: 4_000 }, await through(pool));
      const text = database.prepared({
        text: "SELECT current_setting('statement_timeout') AS ms WHERE $1::boolean",
      }).text;
      for (let round = 0; round < 3; round += 1) {
        expect(await database.query(text, [true])).toEqual([{ ms: '4s' }]);
      }
      const inside = database.transaction((tx) => tx.query("SELECT current_setting('statement_timeout') AS ms"));
      expect(await inside).toEqual([{ ms: '4s' }]);
      await database.close();
      const left = await session(pool);
      const { rows } = await left.query("SELECT current_setting('statement_timeout') AS ms");
      await left.end();
      expect(rows).toEqual([{ ms: '0' }]);
    },
  );

  it('A.4 a statement that fails leaves its session usable, and one that is given up is canceled', async () => {
    const database = cluster.database({ maxTimeoutMs: 9_000 }, await through('some'));
    await expect(database.query('SELECT 1 / 0')).rejects.toMatchObject({ code: '22012' });
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    const lock = await holdLock(cluster.db, 'SELECT pg_advisory_xact_lock(4712)');
    const waits = database.query('SELECT pg_advisory_xact_lock_shared(4712)', [], 100);
    await expect(waits).rejects.toBeInstanceOf(DatabaseTimeoutError);
    await untilBlocked(cluster.db, 0);
    await lock.release();
  });
});
