import { randomUUID } from 'node:crypto';
import { jest } from '@jest/globals';
import type { Client, Pool } from 'pg';
import { newScope, useCluster } from './cluster.fixture.js';
import { encodeTask } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import { artifact, COMPLETED, INPUT_REQUIRED, message, status, taskEvent, taskOf, WORKING } from './events.fixture.js';
import { expireLeases, leaseRow } from './rows.fixture.js';

/** What a connection is asked once, when it is opened. */
const OF_NEW_CONNECTIONS = /^SELECT (pg_backend_pid\(\) AS pid|set_config\()/;

describe('What a turn costs in statements', () => {
  const cluster = useCluster();

  afterEach(() => jest.restoreAllMocks());

  /** The statements that `work` sends, in whatever connection: each call is one round trip. */
  async function statementsOf(work: () => Promise<unknown>): Promise<string[]> {
    // The class that the pool makes its connections of, as the library does its own.
    const { Client: PooledClient } = (
      cluster.dataSource.driver as unknown as { master: Pool & { Client: new () => Client } }
    ).master;
    const sent = jest.spyOn(PooledClient.prototype as Client, 'query');
    await work();
    const statements = sent.mock.calls.map(([first]) => {
      const query: unknown = first;
      return (typeof query === 'string' ? query : (query as { text: string }).text).trim();
    });
    sent.mockRestore();
    return statements.filter((statement) => !OF_NEW_CONNECTIONS.test(statement));
  }

  it('counts what is sent: a transaction of two statements is four', async () => {
    const { database } = await cluster.replica();
    await database.open();
    const work = () =>
      database.transaction(async (tx) => {
        await tx.query('SELECT 1');
        await tx.query('SELECT 2');
      });
    expect(await statementsOf(work)).toEqual([
      expect.stringMatching(/^BEGIN.*SET LOCAL lock_timeout/),
      'SELECT 1',
      'SELECT 2',
      'COMMIT',
    ]);
  });

  it('I2 the first commit, task and events and lease, is one round trip', async () => {
    const a = await cluster.replica();
    await a.database.open();
    const scope = newScope();
    const turn = await a.startTurn(scope, message());
    const statements = await statementsOf(async () => {
      turn.loop!.add(taskEvent(scope));
      await turn.flush();
    });
    expect(statements).toEqual([expect.stringMatching(/^WITH a AS MATERIALIZED [^]*INSERT INTO "a2a_tasks"/)]);
    expect(turn.fencingToken).toBeDefined();
  });

  it('I3 a later commit of one event or of fifty is one round trip, and so is the one with a snapshot', async () => {
    const { scope, loop, turn } = await (await cluster.replica()).working();
    const commit = async (events: number, bytes: number): Promise<string[]> =>
      statementsOf(async () => {
        loop.add(status(scope, WORKING)); // goes alone, at once; what follows gathers behind it
        for (let at = 0; at < events; at += 1) loop.add(artifact(scope, `a${at}`, 'x'.repeat(bytes)));
        await turn.flush();
      });
    const oneCommit = expect.stringMatching(/^WITH t AS MATERIALIZED/) as unknown;
    expect(await commit(0, 0)).toEqual([oneCommit]);
    expect(await commit(50, 10)).toEqual([oneCommit, oneCommit]);
    expect(await commit(1, 200_000)).toEqual([oneCommit, oneCommit]);
  });

  it.each([
    ['COMPLETED', COMPLETED],
    ['INPUT_REQUIRED', INPUT_REQUIRED],
  ])('I2 the commit that ends the turn with %s and takes the lease is one round trip', async (_name, state) => {
    const { scope, loop, turn } = await (await cluster.replica()).working();
    const statements = await statementsOf(async () => {
      loop.add(status(scope, state));
      await turn.flush();
    });
    expect(statements).toEqual([expect.stringContaining('DELETE FROM "a2a_task_leases"')]);
  });

  it.each([1, 100])('I6 B11 a renewal of %s leases is an update of one row, and a look at them', async (leases) => {
    const a = await cluster.replica();
    const running = await Promise.all(Array.from({ length: leases }, () => a.working()));
    await a.heartbeat.runOnce(); // opens its connection, and makes its row
    expect(a.heartbeat.generations).toHaveLength(leases);
    await expireLeases(cluster.db);
    const statements = await statementsOf(() => a.heartbeat.runOnce());
    expect(statements).toEqual([
      expect.stringMatching(/^UPDATE "a2a_replicas" AS r\s+SET/),
      expect.stringMatching(/^SELECT n.generation, l.generation IS NULL AS lost/),
    ]);
    for (const { taskNo } of running) expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ expired: false });
  });

  it('I7 messages that come together are looked up together, and each gets its own answer', async () => {
    const { tasks } = await cluster.replica();
    const receiptOf = (at: number) => ({ messageId: `m${at}`, fingerprint: `f${at}`, windowMs: 60_000 });
    const taskNos = await Promise.all(
      [0, 1, 2].map(async (at) => {
        const task = taskOf(newScope());
        const options = { contextId: task.contextId, commitId: randomUUID(), snapshot: encodeTask(task) };
        const scope = newScope({ taskId: task.id });
        return (await tasks.create(scope, [{ kind: 'task', task }], { ...options, receipt: receiptOf(at) })).taskNo;
      }),
    );
    let found: (number | undefined)[] = [];
    const statements = await statementsOf(async () => {
      found = await Promise.all([2, 7, 0, 1, 8, 2].map((at) => tasks.findRepeated(newScope(), receiptOf(at))));
    });
    // The first goes alone; what comes while it is under way gathers behind it.
    expect(statements).toHaveLength(2);
    expect(found).toEqual([taskNos[2], undefined, taskNos[0], taskNos[1], undefined, taskNos[2]]);
    expect(await tasks.findRepeated(newScope({ owner: 'bob' }), receiptOf(0))).toBeUndefined();
  });

  it('I6 a renewal round without leases sends nothing, and of two idle polls one asks for push receivers', async () => {
    const a = await cluster.replica();
    expect(await statementsOf(() => a.heartbeat.runOnce())).toEqual([]);
    const polled = await statementsOf(async () => {
      await a.poller.runOnce();
      await a.poller.runOnce();
    });
    expect(polled).toEqual([expect.stringContaining('UPDATE "a2a_push_configs"')]);
  });

  it('I6 a sweep that finds nothing is one round trip; each task that it ends costs two more', async () => {
    const [dead, b] = [await cluster.replica(), await cluster.replica()];
    await b.database.open();
    expect(await statementsOf(() => b.sweeper.runOnce())).toEqual([expect.stringContaining('SKIP LOCKED')]);
    await Promise.all([dead.working(), dead.working()]);
    await expireLeases(cluster.db);
    expect(await statementsOf(() => b.sweeper.runOnce())).toHaveLength(1 + 3 * 2);
  });

  it('I5 one poll looks after all followed tasks in one round trip', async () => {
    const a = await cluster.replica();
    const running = await Promise.all([a.working(), a.working(), a.working()]);
    const connection = new AbortController();
    const following = running.map(async ({ taskNo }) => {
      for await (const _event of a.stream.follow(taskNo, 1, connection.signal)) continue;
    });
    await a.poller.runOnce();
    const statements = await statementsOf(() => a.poller.runOnce());
    expect(statements.filter((sql) => sql.includes('"a2a_tasks"'))).toEqual([
      expect.stringContaining('task_no = ANY($1::bigint[])'),
    ]);
    connection.abort();
    await Promise.all(following);
  });

  it('I1 an admission is one transaction of four statements', async () => {
    const a = await cluster.replica();
    const { scope } = await a.waiting();
    expect(await statementsOf(() => a.followUp(scope))).toEqual([
      expect.stringMatching(/^BEGIN/),
      expect.stringMatching(/FOR UPDATE$/),
      expect.stringContaining('FOR KEY SHARE'),
      expect.stringContaining('INSERT INTO "a2a_task_events"'),
      expect.stringContaining('INSERT INTO "a2a_task_leases"'),
      'COMMIT',
    ]);
  });
});
