import { LeaseLostError } from '../../libs/a2a-cluster/src/errors/lease-lost.error.js';
import type { VersionedTaskEvent } from '../../libs/a2a-cluster/src/tasks/task-event.js';
import { eventually, within } from '../../tools/harness/wait.js';
import { type Replica, useCluster } from './cluster.fixture.js';
import {
  artifact,
  artifactsOf,
  COMPLETED,
  INPUT_REQUIRED,
  message,
  status,
  summaryOf,
  textOf,
  WORKING,
} from './events.fixture.js';
import { interceptable, Pause } from './faults.fixture.js';
import { backUp, deleteTask } from './lost-rows.fixture.js';
import { expireLeases, HOLD_HERE, holdEvents, holdTask, logOf, taskRow, untilBlocked } from './rows.fixture.js';

/** The statement of a poll. */
const POLL = /version, state IN .* AS ended/;

describe('Commits that the database has lost', () => {
  const cluster = useCluster();

  /** Follows in the background. */
  function follow({ stream }: Replica, taskNo: number, fromVersion = 0) {
    const events: VersionedTaskEvent[] = [];
    const connection = new AbortController();
    let isOver = false;
    const ended = (async () => {
      for await (const event of stream.follow(taskNo, fromVersion, connection.signal)) events.push(event);
    })().finally(() => (isOver = true));
    ended.catch(() => undefined);
    return {
      get seen(): string[] {
        return events.map(({ version, event }) => `${version} ${summaryOf(event)}${contentOf(event)}`);
      },
      get isOver(): boolean {
        return isOver;
      },
      until: (count: number) => eventually(() => events.length >= count, { timeoutMs: 10_000, intervalMs: 2 }),
      end: () => within(ended, 10_000, () => `the follower ends; it has seen ${events.length} events`),
      hangUp: () => connection.abort(),
    };
  }

  const contentOf = (event: VersionedTaskEvent['event']): string =>
    event.kind === 'artifactUpdate'
      ? `${event.artifactUpdate.append ? ' +' : ' = '}${textOf(event.artifactUpdate.artifact!)}`
      : '';

  const chunk = (scope: Parameters<typeof artifact>[0], text: string, append = true) =>
    artifact(scope, 'a1', text, append);

  /** A task at version 4, which the database has lost from version 2 on; followers of two replicas stand behind it. */
  async function lostUnderFollowers() {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const running = await a.working();
    const { scope, loop, turn, taskNo } = running;
    loop.add(chunk(scope, 'one', false));
    await turn.flush();
    const backup = await backUp(cluster.db, taskNo);
    const followers = [follow(a, taskNo), follow(b, taskNo, 1)];
    await followers[1]!.until(1);
    loop.add(chunk(scope, ' two'));
    loop.add(status(scope, INPUT_REQUIRED));
    await turn.flush();
    await Promise.all([a, b].map(({ poller }) => poller.runOnce()));
    await followers[0]!.until(4);
    await followers[1]!.until(3);
    return { a, b, ...running, backup, followers };
  }

  it('I5 a follower beyond a log that went back is level again within one poll, without a second Task', async () => {
    const { a, b, followers, backup } = await lostUnderFollowers();
    await backup.restore();
    await Promise.all([a, b].map(({ poller }) => poller.runOnce()));
    await followers[0]!.until(6);
    await followers[1]!.until(5);
    expect(followers[0]!.seen.slice(4)).toEqual(['2 artifact a1 = one', '2 status WORKING']);
    expect(followers[1]!.seen.slice(3)).toEqual(['2 artifact a1 = one', '2 status WORKING']);
    // What comes next is told as ever; the lease that came back is nobody's.
    await expireLeases(cluster.db);
    await b.sweeper.runOnce();
    await a.poller.runOnce();
    await Promise.all(followers.map((follower) => follower.end()));
    for (const { seen } of followers) {
      expect(seen.at(-1)).toBe('3 status FAILED');
      expect(seen.filter((line) => line.includes(' task '))).toHaveLength(seen.length === 7 ? 1 : 0);
    }
  });

  it('I5 an end under the number of a lost event reaches who was told that event', async () => {
    const { a, b, scope, taskNo, followers } = await lostUnderFollowers();
    const backup = await backUp(cluster.db, taskNo);
    const next = await a.followUp(scope, message('answer'));
    await next.flush();
    await Promise.all([a, b].map(({ poller }) => poller.runOnce()));
    await Promise.all([followers[0]!.until(5), followers[1]!.until(4)]);
    await backup.restore(); // back at 4, and nobody polls meanwhile
    await b.tasks.forceEnd(scope, () => status(scope, COMPLETED)); // version 5 again, and the last
    await Promise.all([a, b].map(({ poller }) => poller.runOnce()));
    await Promise.all(followers.map((follower) => follower.end()));
    for (const { seen } of followers) expect(seen.slice(-2)).toEqual(['5 artifact a1 = one two', '5 status COMPLETED']);
  });

  /** A turn at version 5 whose commits the database has lost from version 3 on, and followers at 5, 4 and 3. */
  async function lostUnderTurn(text = (word: string): string => word) {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const running = await a.working();
    const { scope, loop, turn, taskNo } = running;
    loop.add(chunk(scope, text('one'), false));
    await turn.flush();
    const backup = await backUp(cluster.db, taskNo);
    const behind = [];
    for (const word of [' two', ' three', ' four']) {
      loop.add(chunk(scope, text(word)));
      await turn.flush();
      // One that reads slowly: it has been told this, and asks for no more yet.
      const slow = b.stream.follow(taskNo, loop.key!.version - 1, new AbortController().signal);
      await slow.next();
      behind.push(slow);
    }
    const follower = follow(b, taskNo);
    await follower.until(5);
    return { a, b, ...running, backup, follower, behind };
  }

  it('I5 a turn stores again what the database has lost of it: nobody sees a difference, wherever he stands', async () => {
    const { a, b, scope, loop, turn, taskNo, backup, follower, behind } = await lostUnderTurn();
    await backup.restore();
    loop.add(chunk(scope, ' five'));
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await b.poller.runOnce();
    await follower.end();
    const rest = ['3 artifact a1 + two', '4 artifact a1 + three', '5 artifact a1 + four', '6 artifact a1 + five'];
    const end = '7 status COMPLETED';
    expect(follower.seen).toEqual(['1 task WORKING', '2 artifact a1 = one', ...rest, end]);
    for (const [at, slow] of behind.entries()) {
      const seen: string[] = [];
      for await (const { version, event } of slow) seen.push(`${version} ${summaryOf(event)}${contentOf(event)}`);
      expect(seen).toEqual([...rest.slice(at + 1), end]);
    }
    expect(await logOf(cluster.db, taskNo)).toHaveLength(7);
    const stored = await a.tasks.find(scope);
    expect(artifactsOf(stored?.task)).toEqual({ a1: 'one two three four five' });
    expect(loop.current).toEqual(stored?.task);
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'COMPLETED', version: 7, snapshotVersion: 7 });
  });

  it('I5 followers that a poll has brought level meanwhile hear the lost events again, and no second Task', async () => {
    const { b, scope, loop, turn, backup, follower, behind } = await lostUnderTurn();
    await backup.restore();
    await b.poller.runOnce();
    await follower.until(7);
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await b.poller.runOnce();
    await follower.end();
    expect(follower.seen.slice(5)).toEqual([
      '2 artifact a1 = one',
      '2 status WORKING',
      '3 artifact a1 + two',
      '4 artifact a1 + three',
      '5 artifact a1 + four',
      '6 status COMPLETED',
    ]);
    await Promise.all(behind.map((slow) => slow.return()));
  });

  it('I5 more than a turn has kept is lost: its versions are not used for anything else, and all are level', async () => {
    const { a, b, scope, loop, turn, taskNo, backup, follower, behind } = await lostUnderTurn((word) =>
      word.padEnd(20_000, '.'),
    );
    await backup.restore();
    loop.add(chunk(scope, ' five'));
    await turn.flush();
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await b.poller.runOnce();
    await follower.end();
    const log = ['task WORKING', 'artifact a1', 'taskMerge', 'taskMerge', 'taskMerge', 'artifact a1', 'artifact a1'];
    expect(await logOf(cluster.db, taskNo)).toEqual([...log, 'status COMPLETED']);
    const [replaced, added, end] = follower.seen.slice(5);
    expect([replaced?.slice(0, 20), added, end]).toEqual([
      '6 artifact a1 = one.',
      '7 artifact a1 + five',
      '8 status COMPLETED',
    ]);
    const stored = await a.tasks.find(scope);
    expect(artifactsOf(stored?.task)).toEqual({ a1: `${'one'.padEnd(20_000, '.')} five` });
    expect(loop.current).toEqual(stored?.task);
    await Promise.all(behind.map((slow) => slow.return()));
  });

  it('I3 a flush waits for what it was called for, not for what is stored again', async () => {
    const { scope, loop, turn, taskNo, backup, behind } = await lostUnderTurn();
    await backup.restore();
    const hold = await holdTask(cluster.db, taskNo);
    loop.add(status(scope, WORKING)); // under way, and waits for the lock
    await untilBlocked(cluster.db);
    loop.add(chunk(scope, ' five', true));
    let flushed = false;
    const flushing = turn.flush().then(() => (flushed = true));
    const events = await holdEvents(cluster.db);
    loop.add(chunk(scope, HOLD_HERE));
    await hold.release();
    await untilBlocked(cluster.db);
    expect([flushed, (await taskRow(cluster.db, taskNo)).version]).toEqual([false, 6]);
    await events.release();
    await flushing;
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await Promise.all(behind.map((slow) => slow.return()));
  });

  it('I3 a turn whose task was made after the point that was lost writes nothing any more, and is told', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    await deleteTask(cluster.db, taskNo);
    await cluster.db.query('DELETE FROM a2a_task_leases WHERE task_no = $1', [taskNo]);
    loop.add(status(scope, COMPLETED));
    await expect(turn.flush()).rejects.toBeInstanceOf(LeaseLostError);
    expect(turn.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(await a.tasks.find(scope)).toBeUndefined();
  });

  it('I5 an answer to a poll that is older than what is committed meanwhile is no loss', async () => {
    const faults = interceptable();
    const a = await cluster.replica({ database: faults.database });
    const { scope, loop, turn, taskNo } = await a.working();
    const follower = follow(a, taskNo);
    await follower.until(1);
    let looks = 0;
    // However often it is looked: each answer is older than a commit that was told before it came.
    faults.get().intercept = async (sql, run) => {
      const rows = await run();
      if (!POLL.test(sql)) return rows;
      looks += 1;
      loop.add(chunk(scope, `${looks}`, looks > 1));
      await turn.flush();
      await follower.until(1 + looks);
      return rows;
    };
    await a.poller.runOnce();
    await a.poller.runOnce();
    expect(looks).toBe(2);
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await follower.end();
    expect(follower.seen).toEqual(['1 task WORKING', '2 artifact a1 = 1', '3 artifact a1 +2', '4 status COMPLETED']);
  });

  it('I5 one look that shows less than is known is not enough: a second one tells', async () => {
    const faults = interceptable();
    const a = await cluster.replica({ database: faults.database });
    const { scope, loop, turn, taskNo } = await a.working();
    loop.add(chunk(scope, 'one', false));
    await turn.flush();
    const follower = follow(a, taskNo);
    await follower.until(2);
    let looks = 0;
    // As over a connection to a server that was the primary once.
    faults.get().intercept = async (sql, run) => {
      const rows = await run();
      if (POLL.test(sql) && (looks += 1) === 1) return rows.map((row) => ({ ...row, version: 1 }));
      return rows;
    };
    await a.poller.runOnce();
    expect(looks).toBe(2);
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await follower.end();
    expect(follower.seen).toEqual(['1 task WORKING', '2 artifact a1 = one', '3 status COMPLETED']);
  });

  it('I5 a page that was read before the loss is told to nobody after it', async () => {
    const faults = interceptable();
    const [a, b] = [await cluster.replica(), await cluster.replica({ database: faults.database })];
    const { scope, loop, turn, taskNo } = await a.working();
    const backup = await backUp(cluster.db, taskNo);
    const follower = follow(b, taskNo);
    await follower.until(1);
    loop.add(chunk(scope, 'lost', false));
    await turn.flush();
    const late = new Pause(/AS page/, 'after');
    faults.get().intercept = late.intercept;
    await b.poller.runOnce(); // version 2 is known
    await late.reached; // and read
    await backup.restore();
    await b.poller.runOnce();
    late.resume();
    await follower.until(2);
    await expireLeases(cluster.db);
    await b.sweeper.runOnce();
    await follower.end();
    expect(follower.seen).toEqual(['1 task WORKING', '1 status WORKING', '2 status FAILED']);
  });

  it('I5 a follower that begins beyond the log is brought level', async () => {
    const { b, taskNo, backup } = await lostUnderFollowers();
    await backup.restore();
    const other = await cluster.replica();
    const late = follow(other, taskNo, 4); // whoever subscribes has read the task a moment before
    await other.poller.runOnce();
    await late.until(2);
    expect(late.seen).toEqual(['2 artifact a1 = one', '2 status WORKING']);
    late.hangUp();
    await late.end();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1']);
    expect(await b.tasks.positions([taskNo])).toEqual(new Map([[taskNo, { version: 2, ended: false }]]));
  });
});
