import type { VersionedTaskEvent } from '../../libs/a2a-cluster/src/tasks/task-event.js';
import { eventually, within } from '../helpers/wait.js';
import { type Replica, useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, INPUT_REQUIRED, message, status, summaryOf, textOf } from './events.fixture.js';
import { interceptable, Pause } from './faults.fixture.js';
import { backUp } from './lost-rows.fixture.js';
import { expireLeases, logOf } from './rows.fixture.js';

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
      ? `${event.artifactUpdate.append ? ' +' : ' ='} ${textOf(event.artifactUpdate.artifact!)}`
      : '';

  const chunk = (scope: Parameters<typeof artifact>[0], text: string, append = true) =>
    artifact(scope, 'a1', text, append);

  /** A task at version 4, which the database has lost from version 2 on; followers of two replicas stand behind it. */
  async function lostUnderFollowers() {
    const [a, b] = [cluster.replica(), cluster.replica()];
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

  it('I5 an answer to a poll that is older than what is committed meanwhile is no loss', async () => {
    const faults = interceptable();
    const a = cluster.replica({ database: faults.database });
    const { scope, loop, turn, taskNo } = await a.working();
    const follower = follow(a, taskNo);
    await follower.until(1);
    const late = new Pause(POLL, 'after');
    faults.get().intercept = late.intercept;
    const poll = a.poller.runOnce();
    await late.reached; // it says version 1
    loop.add(chunk(scope, 'one', false));
    await turn.flush();
    await follower.until(2);
    late.resume();
    await poll;
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await follower.end();
    expect(follower.seen).toEqual(['1 task WORKING', '2 artifact a1 = one', '3 status COMPLETED']);
  });

  it('I5 one look that shows less than is known is not enough: a second one tells', async () => {
    const faults = interceptable();
    const a = cluster.replica({ database: faults.database });
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
    const [a, b] = [cluster.replica(), cluster.replica({ database: faults.database })];
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
    const other = cluster.replica();
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
