import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import type { VersionedTaskEvent } from '../../libs/a2a-cluster/src/tasks/task-event.js';
import { encodeEvent } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import { eventually, within } from '../../tools/harness/wait.js';
import { callContextOf, type Replica, useCluster } from './cluster.fixture.js';
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
import { connectionReset, interceptable } from './faults.fixture.js';
import { HOLD_HERE, holdEvents, holdLock, logOf, untilBlocked } from './rows.fixture.js';

describe('Followers of an event log', () => {
  const cluster = useCluster();

  /** Follows in the background, reading as fast as it can. */
  function follow({ stream }: Replica, taskNo: number, fromVersion = 0) {
    const events: VersionedTaskEvent[] = [];
    const connection = new AbortController();
    const ended = (async () => {
      for await (const event of stream.follow(taskNo, fromVersion, connection.signal)) events.push(event);
    })();
    ended.catch(() => undefined);
    return {
      events,
      get seen(): string[] {
        return events.map(({ version, event }) => `${version} ${summaryOf(event)}`);
      },
      until: (count: number) => eventually(() => events.length >= count, { timeoutMs: 10_000, intervalMs: 2 }),
      end: () => within(ended, 10_000, () => `the follower ends; it has seen ${events.length} events`),
      hangUp: () => connection.abort(),
    };
  }

  /** The versions of what was delivered, which have to be dense from where it began. */
  const versions = (events: VersionedTaskEvent[]): number[] => events.map(({ version }) => version);
  const range = (first: number, last: number): number[] =>
    Array.from({ length: last - first + 1 }, (_, at) => first + at);

  /** Polls until the followers have ended. */
  async function pollUntilEnded(replicas: Replica[], followers: { end: () => Promise<void> }[]): Promise<void> {
    let all = false;
    const ended = Promise.all(followers.map((follower) => follower.end())).finally(() => (all = true));
    while (!all) await Promise.all([...replicas.map(({ poller }) => poller.runOnce()), new Promise(setImmediate)]);
    await ended;
  }

  it('O14 a slow transaction makes no follower skip: what comes after it waits for it', async () => {
    const [a, b, c] = [await cluster.replica(), await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo } = await a.working();
    const other = await a.working();
    const follower = follow(b, taskNo, 1);
    const call = callContextOf(scope);
    const loaded = await c.tasks.load(scope.taskId, call);
    const hold = await holdEvents(cluster.db);
    loop.add(artifact(scope, 'slow', HOLD_HERE));
    await untilBlocked(cluster.db, 1);
    const saving = c.tasks.save({ ...loaded!, metadata: { quick: true } }, call).catch(() => 'refused');
    // Tasks do not share their numbers: what is committed later to another one is seen at once.
    const beside = follow(b, other.taskNo, 1);
    other.loop.add(artifact(other.scope, 'quick'));
    await other.turn.flush();
    await b.poller.runOnce();
    await beside.until(1);
    await b.poller.runOnce();
    expect(follower.seen).toEqual([]);
    await hold.release();
    await turn.flush();
    expect(await saving).toBe('refused');
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await pollUntilEnded([b], [follower]);
    expect(follower.seen).toEqual(['2 artifact slow', '3 status COMPLETED']);
    beside.hangUp();
    await beside.end();
  });

  it('O14 even a later number that shows before an earlier one is not delivered before it', async () => {
    const faults = interceptable();
    const [a, b] = [await cluster.replica(), await cluster.replica({ database: faults.database })];
    let [begun, over] = [0, 0];
    faults.get().intercept = async (_sql, run) => {
      begun += 1;
      return run().finally(() => (over += 1));
    };
    const { scope, taskNo } = await a.working();
    const follower = follow(b, taskNo, 1);
    const insert = `INSERT INTO a2a_task_events (task_no, version, event, commit_id) VALUES ($1, $2, $3, gen_random_uuid())`;
    // Both bypass the task's row lock, which is what makes this impossible for the library's own writes.
    const slow = await holdLock(cluster.db, insert, [taskNo, 2, encodeEvent(artifact(scope, 'slow'))]);
    await cluster.db.query(insert, [taskNo, 3, encodeEvent(status(scope, COMPLETED))]);
    // No poll: it would find a log that is longer than its task says, which looks like one that has gone back.
    const before = begun;
    b.stream.changed(taskNo);
    await eventually(() => begun > before && begun === over); // it has seen the hole, and waits
    expect(follower.seen).toEqual([]);
    await slow.query('UPDATE a2a_tasks SET version = 3 WHERE task_no = $1', [taskNo]);
    await slow.release();
    await pollUntilEnded([b], [follower]);
    expect(follower.seen).toEqual(['2 artifact slow', '3 status COMPLETED']);
  });

  it('I5 followers on three replicas, from any version, see the rest once and in order', async () => {
    const replicas = [await cluster.replica(), await cluster.replica({ notify: true }), await cluster.replica()];
    const [a] = replicas as [Replica];
    const { scope, loop, turn, taskNo } = await a.working();
    const followers = replicas.flatMap((replica) => [follow(replica, taskNo), follow(replica, taskNo, 1)]);
    // More than a page and more than the ring holds, in commits of many sizes.
    for (let chunk = 0; chunk < 900; chunk += 1) {
      loop.add(artifact(scope, 'stream', `${chunk} `, chunk > 0));
      if (chunk % 37 === 0) await turn.flush();
      if (chunk % 150 === 0) {
        await replicas[2]!.poller.runOnce();
        followers.push(...replicas.map((replica) => follow(replica, taskNo, loop.key!.version)));
      }
    }
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await pollUntilEnded(replicas, followers);
    const log = await logOf(cluster.db, taskNo);
    expect(log).toHaveLength(902);
    for (const { events, seen } of followers) {
      expect(versions(events)).toEqual(range(events[0]!.version, 902));
      expect(seen).toEqual(log.map((event, at) => `${at + 1} ${event}`).slice(events[0]!.version - 1));
    }
  });

  it('I5 a follower that does not read holds up nobody and misses nothing', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    const slow = a.stream.follow(taskNo, 0, new AbortController().signal);
    expect((await slow.next()).value).toMatchObject({ version: 1 });
    for (let chunk = 0; chunk < 1_200; chunk += 1) loop.add(artifact(scope, 'stream', `${chunk} `, chunk > 0));
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    const rest: VersionedTaskEvent[] = [];
    for await (const event of slow) rest.push(event);
    expect(versions(rest)).toEqual(range(2, 1_202));
  });

  it('O8 what was committed between a snapshot and the start of following it is delivered', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo } = await a.working();
    const { version } = (await b.tasks.find(scope))!;
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    const follower = follow(b, taskNo, version);
    await follower.end(); // without any wake-up
    expect(follower.seen).toEqual(['2 status COMPLETED']);
  });

  it('O10 a follower stays over INPUT_REQUIRED and sees the next turn, wherever it runs', async () => {
    const [a, b, c] = [await cluster.replica(), await cluster.replica(), await cluster.replica()];
    const { scope, taskNo } = await a.waiting();
    const followers = [follow(a, taskNo), follow(b, taskNo), follow(c, taskNo)];
    const turn = await b.followUp(scope, message('answer'));
    turn.loop!.add(status(scope, COMPLETED));
    await turn.flush();
    await pollUntilEnded([a, b, c], followers);
    for (const { seen } of followers) {
      expect(seen).toEqual(['1 task WORKING', '2 status INPUT_REQUIRED', '3 userMessage answer', '4 status COMPLETED']);
    }
  });

  it('O13 a LISTEN connection that is killed: what is committed meanwhile comes with the next look', async () => {
    const [a, b] = [await cluster.replica({ notify: true }), await cluster.replica({ notify: true })];
    await Promise.all([a.poller.runOnce(), b.poller.runOnce()]);
    const { scope, loop, turn, taskNo } = await a.working();
    const follower = follow(b, taskNo);
    loop.add(artifact(scope, 'heard'));
    await turn.flush();
    await follower.until(2); // by NOTIFY alone: nobody polls
    const killed = await cluster.db.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND query ~ '^(LISTEN|SELECT pg_notify|SELECT 1$)' AND pid <> pg_backend_pid()`,
    );
    expect(killed).toHaveLength(2);
    loop.add(artifact(scope, 'in the gap'));
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await pollUntilEnded([a, b], [follower]);
    expect(versions(follower.events)).toEqual([1, 2, 3, 4]);
  });

  it('I5 a log pruned under a follower: updates that bring it level, then what follows', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo } = await a.working();
    const follower = follow(b, taskNo);
    await follower.until(1);
    loop.add(artifact(scope, 'a1', 'one'));
    loop.add(artifact(scope, 'a1', ', two', true));
    loop.add(artifact(scope, 'a2', 'three'));
    loop.add(status(scope, INPUT_REQUIRED));
    await turn.flush();
    await cluster.db.query('DELETE FROM a2a_task_events WHERE task_no = $1 AND version <= 5', [taskNo]);
    await b.poller.runOnce();
    await follower.until(4);
    expect(follower.seen).toEqual(['1 task WORKING', '1 artifact a1', '1 artifact a2', '5 status INPUT_REQUIRED']);
    const leveling = follower.events.flatMap(({ event }) =>
      event.kind === 'artifactUpdate' ? [event.artifactUpdate] : [],
    );
    expect(leveling.map(({ append, artifact: it }) => [append, textOf(it!)])).toEqual([
      [false, 'one, two'],
      [false, 'three'],
    ]);
    const next = await a.followUp(scope, message('answer'));
    next.loop!.add(status(scope, COMPLETED));
    await next.flush();
    await pollUntilEnded([b], [follower]);
    expect(follower.seen.slice(4)).toEqual(['6 userMessage answer', '7 status COMPLETED']);
  });

  it('I5 a log of which only the end is left: level with the task, nothing of the end twice', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo } = await a.working();
    loop.add(artifact(scope, 'a1', 'one'));
    loop.add(artifact(scope, 'a1', ', two', true));
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await cluster.db.query('DELETE FROM a2a_task_events WHERE task_no = $1 AND version <= 2', [taskNo]);
    const behind = follow(b, taskNo, 1);
    await pollUntilEnded([b], [behind]);
    expect(behind.seen).toEqual(['1 artifact a1', '4 status COMPLETED']);
    expect(artifactsOf((await b.tasks.find(scope))?.task)).toEqual({ a1: 'one, two' });
    const inTime = follow(b, taskNo, 2);
    await inTime.end();
    expect(inTime.seen).toEqual(['3 artifact a1', '4 status COMPLETED']);
  });

  it('I6 a task that is deleted under its followers ends them, and they are told', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { taskNo } = await a.working();
    const followers = [follow(a, taskNo), follow(b, taskNo), follow(b, taskNo, 1)];
    await followers[0]!.until(1);
    await cluster.db.query('DELETE FROM a2a_task_events WHERE task_no = $1', [taskNo]);
    await cluster.db.query('DELETE FROM a2a_tasks WHERE task_no = $1', [taskNo]);
    await Promise.all([a, b].map(({ poller }) => poller.runOnce()));
    for (const follower of followers) await expect(follower.end()).rejects.toBeInstanceOf(TaskNotFoundError);
    expect(followers[0]!.seen).toEqual(['1 task WORKING']);
    expect(followers[2]!.seen).toEqual([]);
  });

  it('I5 a follower outlives a database that is away for a moment', async () => {
    const faults = interceptable();
    const [a, b] = [await cluster.replica(), await cluster.replica({ database: faults.database })];
    const { scope, loop, turn, taskNo } = await a.working();
    let failures = 3;
    faults.get().intercept = (sql, run) => {
      if (!sql.includes('AS page') || failures === 0) return run();
      failures -= 1;
      return Promise.reject(connectionReset());
    };
    const follower = follow(b, taskNo);
    await follower.until(1);
    expect(failures).toBe(0);
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    await pollUntilEnded([b], [follower]);
    expect(follower.seen).toEqual(['1 task WORKING', '2 status COMPLETED']);
  });

  it('I5 hanging up and closing end followers at once', async () => {
    const a = await cluster.replica();
    const { taskNo } = await a.working();
    const [one, other] = [follow(a, taskNo), follow(a, taskNo)];
    await Promise.all([one.until(1), other.until(1)]);
    one.hangUp();
    await one.end();
    await a.stream.close();
    await other.end();
    expect(other.seen).toEqual(['1 task WORKING']);
  });

  it('I5 closing cuts nobody off from what is committed here, however slowly he reads', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    const slow = a.stream.follow(taskNo, 0, new AbortController().signal);
    const first = await slow.next();
    for (const said of ['one', 'two']) loop.add(status(scope, WORKING, said));
    await turn.flush();
    await a.stream.close();
    const seen = [first.value as VersionedTaskEvent];
    for await (const event of slow) seen.push(event);
    expect(versions(seen)).toEqual([1, 2, 3]);
  });

  it('O12 large events are read in pages of about a MiB, and none is missed', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, loop, turn, taskNo } = await a.working();
    const text = 'ü'.repeat(150 * 1024); // 300 KiB of UTF-8
    for (const chunk of range(1, 20)) loop.add(artifact(scope, `a${chunk}`, text));
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    const page = await b.tasks.readEvents(taskNo, 1, 200);
    expect(versions(page)).toEqual(range(2, 5));
    const follower = follow(b, taskNo);
    await follower.end();
    expect(versions(follower.events)).toEqual(range(1, 22));
  });
});
