import { jest } from '@jest/globals';
import type { EntityManager } from 'typeorm';
import { isPassing } from '../../libs/a2a-cluster/src/postgres/connection/database-errors.js';
import { destroySocket } from '../../libs/a2a-cluster/src/postgres/connection/dedicated-connection.js';
import { CommitOutcomeUnknownError } from '../../libs/a2a-cluster/src/errors/commit-outcome-unknown.error.js';
import { LeaseLostError } from '../../libs/a2a-cluster/src/errors/lease-lost.error.js';
import { TurnUsageError } from '../../libs/a2a-cluster/src/errors/turn-usage.error.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { BOOKINGS, booked, SLOW, useBookings } from './bookings.fixture.js';
import { isLost } from './cluster.fixture.js';
import { claimFrom, effectRows, errorOf, nextAttempt } from './effects.fixture.js';
import { connectionReset, type DatabaseFactory, interceptable, Pause, withoutGuard } from './faults.fixture.js';
import { expireLeases, holdLock, leaseRow, logOf, untilBlocked } from './rows.fixture.js';

const FENCE = /> clock_timestamp\(\) FOR KEY SHARE\s*$/;
const RECORD = /INSERT INTO "a2a_task_effects"/;
/** How long a session may stand still inside of a transaction. */
const BOUND_MS = 300;

const booking = (id = 'b1', amount = 1) =>
  jest.fn(async (manager: EntityManager) => {
    await manager.insert(BOOKINGS, { id, amount });
    return 'done';
  });

describe('Transactions and the lease', () => {
  const cluster = useBookings();

  /** A is frozen before its transaction begins, and B has claimed but not yet written. */
  async function beginAfterTheClaim(database?: DatabaseFactory) {
    const running = await (await cluster.replica(database && { database })).working();
    await claimFrom(cluster, running);
    const work = booking();
    return { ...running, work, outcome: running.turn.transaction(work, { key: 'book' }) };
  }

  it('I3 a claim that came first: LeaseLostError, the work is not begun, nothing is written', async () => {
    const { taskNo, work, outcome } = await beginAfterTheClaim();
    expect(await errorOf(outcome)).toBeInstanceOf(LeaseLostError);
    expect(work).not.toHaveBeenCalled();
    expect(await booked(cluster.db)).toEqual([]);
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  it('I3 negative control: without the generation in the fence, the stale owner commits', async () => {
    const guard = withoutGuard([/WHERE generation = (\$\d+) AND task_no/, 'WHERE $1::bigint > 0 AND task_no']);
    const { outcome } = await beginAfterTheClaim(guard.database);
    expect(await outcome).toBe('done');
    guard.expectGone();
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it('I3 a lease that has run out permits none, claimed or not', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    await expireLeases(cluster.db, taskNo);
    const work = booking();
    expect(await errorOf(turn.transaction(work))).toBeInstanceOf(LeaseLostError);
    expect(work).not.toHaveBeenCalled();
  });

  /** The lease runs out while the transaction is open, and B looks for what it can claim. */
  async function claimDuringATransaction(database?: DatabaseFactory) {
    const b = await cluster.replica();
    const running = await (await cluster.replica(database && { database })).working();
    let claimed: unknown;
    const outcome = running.turn.transaction(async (manager) => {
      await booking()(manager);
      ({ claimed } = await claimFrom(cluster, running, b));
      return 'done';
    });
    expect(await outcome).toBe('done');
    return { ...running, claimed, b };
  }

  it('I3 while it is open its lease is skipped by claims, run out or not; after that it can be claimed', async () => {
    const { claimed, b, taskNo } = await claimDuringATransaction();
    expect(claimed).toBeUndefined();
    expect(await booked(cluster.db)).toEqual(['b1']);
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 1, failed: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
  });

  it('I3 negative control: a look at the lease without a row lock, and the stale owner commits', async () => {
    const guard = withoutGuard([FENCE, '> clock_timestamp()']);
    const { claimed } = await claimDuringATransaction(guard.database);
    guard.expectGone();
    expect(claimed).toBeDefined();
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it('I3 a claim that is under way is waited for, and then refuses it', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const claiming = await holdLock(
      cluster.db,
      "UPDATE a2a_task_leases SET generation = DEFAULT, holder = 'claimer' WHERE task_no = $1",
      [taskNo],
    );
    const work = booking();
    const outcome = errorOf(turn.transaction(work));
    await untilBlocked(cluster.db);
    await claiming.release();
    expect(await outcome).toBeInstanceOf(LeaseLostError);
    expect(work).not.toHaveBeenCalled();
  });

  it('O52 heartbeats go on while it is open, and a cancel can be asked for', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, turn, taskNo, generation } = await a.working();
    await turn.transaction(async (manager) => {
      await booking()(manager);
      await expireLeases(cluster.db, taskNo);
      expect(await a.heartbeat.runOnce()).toBe(true);
      expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation, expired: false });
      expect(await b.tasks.requestCancel(scope, b.leaseRequest('cancel'))).toMatchObject({ outcome: 'requested' });
    });
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it('O52 negative control: a fence that locks the lease for itself would stall the cancel', async () => {
    const guard = withoutGuard([FENCE, '> clock_timestamp() FOR SHARE']);
    const [a, b] = [await cluster.replica({ database: guard.database }), await cluster.replica()];
    const { scope, turn } = await a.working();
    let canceling: Promise<unknown> | undefined;
    await turn.transaction(async () => {
      canceling = b.tasks.requestCancel(scope, b.leaseRequest('cancel'));
      await untilBlocked(cluster.db);
    });
    guard.expectGone();
    expect(await canceling).toMatchObject({ outcome: 'requested' });
  });

  const places = ['before the fence', 'before the record', 'within the work', 'before COMMIT'] as const;

  it.each(places)(
    'O52 O60 a process that freezes %s: claimable within the bound, nothing stale accepted',
    async (at) => {
      const faults = interceptable();
      const [a, b] = [
        await cluster.replica({ database: faults.database, maxTransactionMs: BOUND_MS }),
        await cluster.replica({ maxTransactionMs: 10_000 }),
      ];
      const running = await a.working();
      const [frozen, thawed] = [new Deferred(), new Deferred()];
      const freeze = (): Promise<void> => (frozen.resolve(), thawed.promise);
      const pause = new Pause(at === 'before the fence' ? FENCE : RECORD, 'before');
      if (at === 'before the fence' || at === 'before the record') {
        faults.get().intercept = pause.intercept;
        void pause.reached.then(frozen.resolve);
        void thawed.promise.then(() => pause.resume());
      }
      if (at === 'before COMMIT') faults.get().interceptCommit = (commit) => freeze().then(commit);
      const work = async (manager: EntityManager): Promise<string> => {
        await booking()(manager);
        if (at === 'within the work') await freeze();
        return 'done';
      };
      const outcome = errorOf(running.turn.transaction(work, { key: 'book' }));
      await frozen.promise;
      await expireLeases(cluster.db, running.taskNo);
      if (at !== 'before the fence') expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 0 });
      await eventually(async () => (await b.sweeper.runOnce()).failed === 1, { timeoutMs: 10_000 });
      thawed.resolve();
      const error = await outcome;
      expect(isLost(error) || isPassing(error)).toBe(true);
      expect(error).not.toBeInstanceOf(CommitOutcomeUnknownError);
      expect(await booked(cluster.db)).toEqual([]);
      expect(await effectRows(cluster.db, running.taskNo)).toEqual({});
      expect(await logOf(cluster.db, running.taskNo)).toEqual(['task WORKING', 'status FAILED']);
    },
  );

  it('O60 the same without a key: what the server has ended long before is not called unknown', async () => {
    const a = await cluster.replica({ maxTransactionMs: BOUND_MS });
    const { turn } = await a.working();
    const work = async (manager: EntityManager): Promise<void> => {
      await booking()(manager);
      await eventually(async () => {
        const open = await cluster.db.query("SELECT FROM pg_stat_activity WHERE state = 'idle in transaction'");
        return open.length === 0 && manager.queryRunner!.isReleased;
      });
    };
    const error = await errorOf(turn.transaction(work));
    expect(error).not.toBeInstanceOf(CommitOutcomeUnknownError);
    expect(isPassing(error)).toBe(true);
    expect(await booked(cluster.db)).toEqual([]);
  });

  it.each([
    ['COMMIT', ['b1']],
    ['ROLLBACK', []],
    ['ROLLBACK; BEGIN', []],
    ['COMMIT AND CHAIN', ['b1']],
  ])('B.15 work that says %s by itself is told so, and is no success', async (statement, left) => {
    const a = await cluster.replica();
    const { turn, taskNo } = await a.working();
    const work = async (manager: EntityManager): Promise<void> => {
      await manager.query("INSERT INTO bookings VALUES ('b1', 1)");
      await manager.query(statement);
    };
    const error = await errorOf(turn.transaction(work, { key: 'book' }));
    expect(error).toBeInstanceOf(TurnUsageError);
    expect(error.message).toMatch(/COMMIT or ROLLBACK of its own/);
    expect(await booked(cluster.db)).toEqual(left);
    expect(Object.keys(await effectRows(cluster.db, taskNo))).toHaveLength(left.length);
    await turn.flush();
  });

  it('O60 a statement that takes too long is ended by the server, and the work may not hide it', async () => {
    const a = await cluster.replica({ maxTransactionMs: BOUND_MS });
    const { turn } = await a.working();
    const work = async (manager: EntityManager): Promise<void> => {
      await booking()(manager);
      await manager.query('SELECT pg_sleep(30)').catch(() => undefined);
    };
    await expect(turn.transaction(work)).rejects.toThrow('transaction is aborted');
    expect(await booked(cluster.db)).toEqual([]);
  });

  async function replicaWithFaults() {
    const faults = interceptable();
    const replica = await cluster.replica({ database: faults.database });
    return { replica, database: faults.get() };
  }

  /** The connection breaks at COMMIT, before or after the database has done it. */
  const commitLost = (how: 'done' | 'not done') => async (commit: () => Promise<void>) => {
    if (how === 'done') await commit();
    throw connectionReset();
  };

  it('O53 the answer to COMMIT is lost, done: with a key the result is looked up, and it happens once', async () => {
    const { replica, database } = await replicaWithFaults();
    const first = await replica.working();
    database.interceptCommit = commitLost('done');
    const work = booking();
    expect(await first.turn.transaction(work, { key: 'book' })).toBe('done');
    const second = await nextAttempt(cluster, first);
    expect(await second.turn.transaction(work, { key: 'book' })).toBe('done');
    expect(work).toHaveBeenCalledTimes(1);
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it('O53 not done: with a key it fails with what broke, leaves no record, and can be tried again', async () => {
    const { replica, database } = await replicaWithFaults();
    const { turn, taskNo } = await replica.working();
    database.interceptCommit = commitLost('not done');
    const work = booking();
    expect(await errorOf(turn.transaction(work, { key: 'book' }))).toMatchObject({ code: 'ECONNRESET' });
    expect(await booked(cluster.db)).toEqual([]);
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
    database.interceptCommit = (commit) => commit();
    expect(await turn.transaction(work, { key: 'book' })).toBe('done');
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it.each(['done', 'not done'] as const)('O53 %s, without a key: CommitOutcomeUnknownError', async (how) => {
    const { replica, database } = await replicaWithFaults();
    const { turn } = await replica.working();
    database.interceptCommit = commitLost(how);
    const error = await errorOf(turn.transaction(booking()));
    expect(error).toBeInstanceOf(CommitOutcomeUnknownError);
    expect(error.cause).toMatchObject({ code: 'ECONNRESET' });
    expect(await booked(cluster.db)).toEqual(how === 'done' ? ['b1'] : []);
  });

  it('O53 unknown stays unknown where the lease is lost as well: it may have been written', async () => {
    const { replica, database } = await replicaWithFaults();
    const { turn } = await replica.working();
    database.interceptCommit = async (commit) => {
      await commit();
      turn.onLost('another replica has claimed it');
      throw connectionReset();
    };
    expect(await errorOf(turn.transaction(booking()))).toBeInstanceOf(CommitOutcomeUnknownError);
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it('O53 the look-up itself is cut off: repeated until it is known', async () => {
    const { replica, database } = await replicaWithFaults();
    const { turn } = await replica.working();
    let left = 3;
    database.interceptCommit = commitLost('done');
    database.interceptTransaction = (run) => (left-- > 0 ? Promise.reject(connectionReset()) : run());
    expect(await turn.transaction(booking(), { key: 'book' })).toBe('done');
    expect(left).toBeLessThan(0);
  });

  it('O53 the database is away past the deadline: unknown', async () => {
    const { replica, database } = await replicaWithFaults();
    const { turn } = await replica.working();
    database.interceptCommit = async (commit) => {
      await commit();
      Object.assign(turn.lease!, { deadline: performance.now() + 30 });
      throw connectionReset();
    };
    database.interceptTransaction = () => Promise.reject(connectionReset());
    expect(await errorOf(turn.transaction(booking(), { key: 'book' }))).toBeInstanceOf(CommitOutcomeUnknownError);
  });

  /** The connection breaks while the database is in the middle of COMMIT, and goes on with it. */
  async function brokenInCommit() {
    const { replica, database } = await replicaWithFaults();
    const { turn, taskNo } = await replica.working();
    const hold = await holdLock(cluster.db, `SELECT pg_advisory_xact_lock(${SLOW})`);
    let client: object | undefined;
    database.interceptCommit = async (commit) => {
      const committing = commit();
      await untilBlocked(cluster.db);
      destroySocket(client!);
      await committing;
    };
    const work = async (manager: EntityManager): Promise<string> => {
      client = (await manager.queryRunner!.connect()) as object;
      return booking('b1', SLOW)(manager);
    };
    const outcome = turn.transaction(work, { key: 'book' });
    outcome.catch(() => undefined);
    await untilBlocked(cluster.db, 2); // the look-up, behind the record
    return { taskNo, hold, outcome };
  }

  it('O53 a COMMIT that is still under way when its answer is lost, and is done: the look-up waits for it', async () => {
    const { hold, outcome } = await brokenInCommit();
    await hold.release();
    expect(await outcome).toBe('done');
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it('O53 the same where it is rolled back in the end: the look-up knows', async () => {
    const { hold, outcome, taskNo } = await brokenInCommit();
    await cluster.db.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'advisory'`,
    );
    const error = await errorOf(outcome);
    expect(error).not.toBeInstanceOf(CommitOutcomeUnknownError);
    expect(isPassing(error)).toBe(true);
    await hold.release();
    expect(await booked(cluster.db)).toEqual([]);
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  it('O53 a COMMIT that takes longer than the transaction may is not called undone', async () => {
    const { turn } = await (await cluster.replica()).working();
    const hold = await holdLock(cluster.db, `SELECT pg_advisory_xact_lock(${SLOW})`);
    const outcome = errorOf(turn.transaction(booking('b1', SLOW), { timeoutMs: 300 }));
    expect(await outcome).toBeInstanceOf(CommitOutcomeUnknownError);
    await hold.release();
  });
});
