import { CommitOutcomeUnknownError } from '../../libs/a2a-cluster/src/errors/commit-outcome-unknown.error.js';
import { callContextOf, isLost, newScope, useCluster } from './cluster.fixture.js';
import {
  artifact,
  artifactsOf,
  COMPLETED,
  INPUT_REQUIRED,
  message,
  status,
  taskEvent,
  textOf,
} from './events.fixture.js';
import { connectionReset, interceptable, type InterceptedDatabase, withoutGuard } from './faults.fixture.js';
import {
  expireLeases,
  HOLD_HERE,
  holdEvents,
  holdLock,
  leaseRow,
  logOf,
  taskRow,
  untilBlocked,
} from './rows.fixture.js';

/** Whether the database had done what it was asked for when the connection broke. */
type Lost = 'done' | 'not done';

const COMMIT = 'INSERT INTO "a2a_task_events"';

/** The next commit in one statement breaks off, `times` in a row. */
function loseCommit(database: InterceptedDatabase, lost: Lost, times = 1): { left: () => number } {
  let left = times;
  const before = database.intercept;
  database.intercept = async (sql, run) => {
    if (left === 0 || !sql.includes(COMMIT)) return before(sql, run);
    left -= 1;
    if (lost === 'done') await before(sql, run);
    throw connectionReset();
  };
  return { left: () => left };
}

/** The same for a transaction of several statements: its connection breaks at COMMIT. */
function loseTransaction(database: InterceptedDatabase, lost: Lost): { left: () => number } {
  let left = 1;
  database.interceptTransaction = async (run) => {
    if (left === 0) return run();
    left -= 1;
    await (lost === 'done' ? run() : run(() => Promise.reject(connectionReset())).catch(() => undefined));
    throw new CommitOutcomeUnknownError(connectionReset());
  };
  return { left: () => left };
}

const cases: [Lost][] = [['done'], ['not done']];

describe('Commits whose answer was lost', () => {
  const cluster = useCluster();

  async function replicaWithFaults() {
    const faults = interceptable();
    const replica = await cluster.replica({ database: faults.database });
    return { replica, database: faults.get() };
  }

  it.each(cases)('O53 the first commit of a new task, %s: one task, one lease, the turn goes on', async (lost) => {
    const { replica, database } = await replicaWithFaults();
    const scope = newScope();
    const turn = await replica.startTurn(scope, message());
    const fault = loseCommit(database, lost);
    turn.loop!.add(taskEvent(scope));
    turn.loop!.add(artifact(scope, 'a1'));
    await turn.flush();
    expect(fault.left()).toBe(0);
    const { taskNo } = turn.loop!.key!;
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1']);
    const lease = { generation: turn.fencingToken, holder: replica.holderId, attempt: 1 };
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject(lease);
    expect(replica.heartbeat.generations).toEqual([turn.fencingToken]);
    turn.loop!.add(status(scope, COMPLETED));
    await turn.flush();
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'COMPLETED', version: 3 });
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it.each(cases)('O53 a first commit that ends its turn at once, %s', async (lost) => {
    const { replica, database } = await replicaWithFaults();
    const scope = newScope();
    const turn = await replica.startTurn(scope, message());
    loseCommit(database, lost);
    turn.loop!.add(status(scope, COMPLETED));
    await turn.flush();
    expect(await logOf(cluster.db, turn.loop!.key!.taskNo)).toEqual(['task SUBMITTED', 'status COMPLETED']);
  });

  it.each(cases)('O53 a later commit, %s: one copy of the events, the turn goes on', async (lost) => {
    const { replica, database } = await replicaWithFaults();
    const { scope, turn, loop, taskNo, generation } = await replica.working();
    const fault = loseCommit(database, lost, 2);
    loop.add(artifact(scope, 'a1', 'one'));
    loop.add(artifact(scope, 'a1', ', two', true));
    await turn.flush();
    expect(fault.left()).toBe(0);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1', 'artifact a1']);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation });
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    expect(artifactsOf((await replica.tasks.find(scope))?.task)).toEqual({ a1: 'one, two' });
  });

  it.each(cases)('O53 the ending commit, %s: one terminal event, the lease is gone', async (lost) => {
    const { replica, database } = await replicaWithFaults();
    const { scope, turn, loop, taskNo } = await replica.working();
    loseCommit(database, lost, 2);
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    expect(turn.signal.aborted).toBe(false);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status COMPLETED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    expect(await turn.outcome).toMatchObject({ kind: 'ended', version: 2 });
  });

  it.each(cases)('O53 the commit that asks and lets go, %s: the next turn finds the task waiting', async (lost) => {
    const { replica, database } = await replicaWithFaults();
    const { scope, turn, loop, taskNo } = await replica.working();
    loseCommit(database, lost);
    loop.add(status(scope, INPUT_REQUIRED));
    await turn.flush();
    expect((await (await cluster.replica()).followUp(scope, message('answer'))).fencingToken).toBeDefined();
    expect((await logOf(cluster.db, taskNo)).slice(1)).toEqual(['status INPUT_REQUIRED', 'userMessage answer']);
  });

  it.each(cases)('O53 the admission of a follow-up, %s: its message once, and its own lease', async (lost) => {
    const { replica, database } = await replicaWithFaults();
    const { scope, taskNo } = await replica.waiting();
    const fault = loseTransaction(database, lost);
    const turn = await replica.followUp(scope, message('answer'));
    expect(fault.left()).toBe(0);
    expect((await logOf(cluster.db, taskNo)).slice(2)).toEqual(['userMessage answer']);
    const lease = { generation: turn.fencingToken, holder: replica.holderId, attempt: 1, admittedVersion: 3 };
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject(lease);
    turn.loop!.add(status(scope, COMPLETED));
    await turn.flush();
    expect((await logOf(cluster.db, taskNo)).at(-1)).toBe('status COMPLETED');
  });

  it('O53 an admission, done, whose lease is claimed before the retry: its message once, and no second turn', async () => {
    const { replica, database } = await replicaWithFaults();
    const b = await cluster.replica();
    const { scope, taskNo } = await replica.waiting();
    database.interceptTransaction = async (run) => {
      database.interceptTransaction = (again) => again();
      await run();
      await expireLeases(cluster.db, taskNo);
      expect(await b.sweeper.runOnce()).toMatchObject({ failed: 1 });
      throw new CommitOutcomeUnknownError(connectionReset());
    };
    const turn = await replica.followUp(scope, message('answer'));
    expect(await turn.outcome).toEqual({ kind: 'lost', taskNo });
    expect(turn.loop).toBeUndefined();
    expect((await logOf(cluster.db, taskNo)).slice(2)).toEqual(['userMessage answer', 'status FAILED']);
    expect(replica.heartbeat.generations).toEqual([]);
  });

  it('O53 an admission, done, whose lease this replica itself has claimed: what it made is not there any more', async () => {
    const { replica, database } = await replicaWithFaults();
    const { scope, taskNo } = await replica.waiting();
    database.interceptTransaction = async (run) => {
      database.interceptTransaction = (again) => again();
      await run();
      await expireLeases(cluster.db, taskNo);
      const claimed = await replica.leases.claim({ holder: replica.holderId, ttlMs: 60_000, limit: 1 });
      expect(claimed).toHaveLength(1);
      throw new CommitOutcomeUnknownError(connectionReset());
    };
    const turn = await replica.followUp(scope, message('answer'));
    expect(await turn.outcome).toEqual({ kind: 'lost', taskNo });
    expect(turn.loop).toBeUndefined();
    expect((await logOf(cluster.db, taskNo)).slice(2)).toEqual(['userMessage answer']);
  });

  it('B12 a claim whose answer was lost, three times: no attempt is used up, and FAILED says one run', async () => {
    const dead = await cluster.replica();
    const { replica: b, database } = await replicaWithFaults();
    const { taskNo, scope } = await dead.working();
    await expireLeases(cluster.db, taskNo);
    const { intercept } = database;
    let left = 3;
    database.intercept = async (sql, run) => {
      const rows = await intercept(sql, run);
      if (left === 0 || !sql.includes('WITH gone AS')) return rows;
      expect(rows).toHaveLength(1);
      left -= 1;
      throw connectionReset();
    };
    for (let lost = 1; lost <= 3; lost += 1) {
      await expect(b.sweeper.runOnce()).rejects.toThrow('ECONNRESET');
      await expireLeases(cluster.db, taskNo);
    }
    const ending = { holder: b.holderId, ttlMs: 60_000, limit: 1, endingAfterAttempts: 2 };
    expect(await b.leases.claim(ending)).toEqual([]); // it may still be run again
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 1, failed: 1 });
    const { status: ended } = (await b.tasks.find(scope))!.task;
    expect(textOf(ended!.message!)).toContain('(attempt 1)');
  });

  it.each(cases)('O53 the request to cancel a waiting task, %s: repeated, it finds its own lease', async (lost) => {
    const { replica, database } = await replicaWithFaults();
    const { scope, taskNo } = await replica.waiting();
    const lease = replica.leaseRequest('cancel');
    loseTransaction(database, lost);
    await expect(replica.tasks.requestCancel(scope, lease)).rejects.toThrow(CommitOutcomeUnknownError);
    const repeated = await replica.tasks.requestCancel(scope, lease);
    const { generation } = (await leaseRow(cluster.db, taskNo))!;
    expect(repeated).toMatchObject({ outcome: 'admitted', generation });
  });

  it('O53 the answer is lost and somebody saves after it: the commit is found all the same', async () => {
    const { replica, database } = await replicaWithFaults();
    const { scope, turn, loop, taskNo } = await replica.working();
    const other = await cluster.replica();
    const { intercept } = database;
    let broken = false;
    database.intercept = async (sql, run) => {
      const rows = await intercept(sql, run);
      if (broken || !sql.includes(COMMIT)) return rows;
      broken = true;
      const call = callContextOf(scope);
      const loaded = await other.tasks.load(scope.taskId, call);
      await other.tasks.save({ ...loaded!, metadata: { saved: 'after it' } }, call);
      throw connectionReset();
    };
    loop.add(artifact(scope, 'a1', 'one'));
    await turn.flush();
    loop.add(artifact(scope, 'a1', ', two', true));
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    const log = ['task WORKING', 'artifact a1', 'taskMerge', 'artifact a1', 'status COMPLETED'];
    expect(await logOf(cluster.db, taskNo)).toEqual(log);
    const stored = await other.tasks.find(scope);
    expect(artifactsOf(stored?.task)).toEqual({ a1: 'one, two' });
    expect(stored?.task.metadata).toEqual({ saved: 'after it' });
  });

  it('O53 the answer is lost and the lease is claimed before the retry: fenced, and its events stay once', async () => {
    const { replica, database } = await replicaWithFaults();
    const b = await cluster.replica();
    const scope = newScope();
    const turn = await replica.startTurn(scope, message());
    const { intercept } = database;
    let broken = false;
    database.intercept = async (sql, run) => {
      const rows = await intercept(sql, run);
      if (broken || !sql.includes(COMMIT)) return rows;
      broken = true;
      await expireLeases(cluster.db);
      await b.leases.claim({ holder: b.holderId, ttlMs: 60_000, limit: 1 });
      throw connectionReset();
    };
    turn.loop!.add(taskEvent(scope));
    expect(isLost(await turn.flush().catch((error: unknown) => error))).toBe(true);
    const { taskNo } = (await b.tasks.find(scope))!;
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ holder: b.holderId, attempt: 1 });
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING']);
  });

  it('O53 the write of a recovery, done: the task has ended, once, and nobody is left to end', async () => {
    const { replica: b, database } = await replicaWithFaults();
    const { taskNo } = await (await cluster.replica()).working();
    await expireLeases(cluster.db, taskNo);
    loseCommit(database, 'done');
    await b.sweeper.runOnce();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
    expect(await (await cluster.replica()).sweeper.runOnce()).toMatchObject({ claimed: 0 });
  });

  it('O53 O29 the write of a recovery, not done: the task is ended, by this sweep or when the claim has run out', async () => {
    const { replica: b, database } = await replicaWithFaults();
    const { taskNo } = await (await cluster.replica()).working();
    await expireLeases(cluster.db, taskNo);
    loseCommit(database, 'not done');
    await b.sweeper.runOnce();
    expect(b.heartbeat.generations).toEqual([]); // it does not keep what it could not end
    await expireLeases(cluster.db);
    await (await cluster.replica()).sweeper.runOnce();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
  });

  it('O53 a backend that is killed in the middle of a commit: rolled back, repeated, once in the log', async () => {
    const { scope, turn, loop, taskNo } = await (await cluster.replica()).working();
    const hold = await holdEvents(cluster.db);
    loop.add(artifact(scope, 'a1', HOLD_HERE));
    await untilBlocked(cluster.db);
    await cluster.db.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'advisory'`,
    );
    await hold.release();
    await turn.flush();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1']);
  });

  it('O53 a backend that is killed at the COMMIT of an admission: repeated, the message once, one lease', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    // A deferred trigger runs in COMMIT itself.
    await cluster.db.query(`
      CREATE FUNCTION hold_commit() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF NEW.event LIKE '%hold-at-commit%' THEN PERFORM pg_advisory_xact_lock_shared(53); END IF;
        RETURN NULL;
      END $$;
      CREATE CONSTRAINT TRIGGER hold_commit AFTER INSERT ON a2a_task_events DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION hold_commit()`);
    const hold = await holdLock(cluster.db, 'SELECT pg_advisory_xact_lock(53)');
    const following = b.followUp(scope, message('hold-at-commit'));
    await untilBlocked(cluster.db);
    const killed = await cluster.db.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'advisory' AND query = 'COMMIT'`,
    );
    expect(killed).toHaveLength(1);
    await hold.release();
    const { fencingToken } = await following;
    expect((await logOf(cluster.db, taskNo)).slice(2)).toEqual(['userMessage hold-at-commit']);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation: fencingToken, holder: b.holderId });
  });

  it('O53 negative control: a retry that does not look for its commit id stores the events twice', async () => {
    const guard = withoutGuard([/commit_id = (\$\d+::uuid)/, '$1 IS NULL']);
    let database!: InterceptedDatabase;
    const replica = await cluster.replica({
      database: (...args) => (database = guard.database(...args) as InterceptedDatabase),
    });
    const { scope, turn, loop, taskNo } = await replica.working();
    loseCommit(database, 'done');
    loop.add(artifact(scope, 'a1'));
    await turn.flush();
    guard.expectGone();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1', 'artifact a1']);
  });
});
