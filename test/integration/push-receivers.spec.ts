import { optionsWith } from '../helpers/options.js';
import { jest } from '@jest/globals';
import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import { PushClient } from '../../libs/a2a-cluster/src/push/push-client.js';
import { PushDispatcher } from '../../libs/a2a-cluster/src/push/push-dispatcher.js';
import { PUSH_DEFAULTS, type PushOptions } from '../../libs/a2a-cluster/src/options/push.options.js';
import { PushTargetGuard } from '../../libs/a2a-cluster/src/push/push-target.guard.js';
import { TypeOrmPushConfigStore } from '../../libs/a2a-cluster/src/postgres/push/typeorm-push-config-store.js';
import type { PushClaimRequest } from '../../libs/a2a-cluster/src/push/push-config-store.js';
import { InMemoryPushConfigStore } from '../../libs/a2a-cluster/src/testing/in-memory-push-config.store.js';
import { PushReceiver } from '../helpers/push-receiver.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { type Replica, useCluster } from './cluster.fixture.js';
import { artifact, COMPLETED, INPUT_REQUIRED, status } from './events.fixture.js';
import { interceptable, Pause } from './faults.fixture.js';
import { backUp } from './lost-rows.fixture.js';
import { expireLeases } from './rows.fixture.js';

const READ_EVENTS = /octet_length\(event\)\s+AS bytes/;

const CLAIM: PushClaimRequest = { limit: 100, claimMs: 60_000, lastNotification: 'taken', first: 'new' };

const OPTIONS: PushOptions = {
  allow: ['127.0.0.0/8'],
  timeoutMs: 2_000,
  maxAttempts: 3,
  backoffMs: 10,
  maxConcurrentDeliveries: 256,
};

const registration = (url: string, id = 'hook') => ({
  config: { tenant: '', id, taskId: '', url, token: '', authentication: undefined } as TaskPushNotificationConfig,
  wireVersion: '1.0',
});

describe('Push receivers', () => {
  const cluster = useCluster();
  const dispatchers: PushDispatcher[] = [];

  afterEach(async () => {
    await Promise.all(dispatchers.splice(0).map((dispatcher) => dispatcher.stop()));
  });

  const storeOf = ({ database, tables }: Replica): TypeOrmPushConfigStore =>
    new TypeOrmPushConfigStore(database, tables, 'default');

  function dispatcherOf(replica: Replica, options: Partial<PushOptions> = {}): PushDispatcher {
    const settings = optionsWith({ push: { ...OPTIONS, ...options } });
    const client = new PushClient(new PushTargetGuard(settings), settings);
    const { tasks, stream, poller } = replica;
    const dispatcher = new PushDispatcher(storeOf(replica), tasks, client, stream, poller, settings);
    dispatchers.push(dispatcher);
    return dispatcher;
  }

  interface Row {
    delivered: number;
    attempts: number;
    failed: string | null;
    due: string;
  }

  const rows = (): Promise<Row[]> =>
    cluster.db.query(
      `SELECT delivered_version AS delivered, attempts, failed, claimed_until::text AS due
         FROM a2a_push_configs ORDER BY task_no, config_id`,
    );

  /** A task with a receiver that has been told nothing of its events after the first. */
  async function behind(replica: Replica, url = 'https://example.com/', id?: string) {
    const running = await replica.working();
    await storeOf(replica).save(running.taskNo, registration(url, id));
    running.loop.add(artifact(running.scope, 'a1'));
    await running.turn.flush();
    return running;
  }

  it('O48 of many dispatchers each receiver has one, and none that is level', async () => {
    const replicas = [await cluster.replica(), await cluster.replica(), await cluster.replica()];
    await behind(replicas[0]!);
    await behind(replicas[0]!);
    const { taskNo } = await replicas[0]!.working();
    await storeOf(replicas[0]!).save(taskNo, registration('https://example.com/'));
    const claims = await Promise.all(replicas.map((replica) => storeOf(replica).claim(CLAIM)));
    expect(claims.flat()).toHaveLength(2);
    expect(new Set(claims.flat().map((claimed) => claimed.taskNo)).size).toBe(2);
    expect(await storeOf(replicas[0]!).claim(CLAIM)).toEqual([]);
  });

  it('O48 a claim that has run out is taken over, and its first owner records nothing any more', async () => {
    const [a, b] = [storeOf(await cluster.replica()), storeOf(await cluster.replica())];
    await behind(await cluster.replica());
    const [first] = await a.claim({ ...CLAIM, claimMs: 0 });
    const [second] = await b.claim(CLAIM);
    expect(second).toMatchObject({ taskNo: first!.taskNo, deliveredVersion: 1 });
    const level = { deliveredVersion: 2, attempts: 0, againInMs: 0 };
    expect(await a.progress(first!, level)).toBeUndefined();
    expect(await rows()).toMatchObject([{ delivered: 1 }]);
    expect(await b.progress(second!, level)).toBeDefined();
    expect(await b.claim(CLAIM)).toEqual([]);
  });

  it('one that is registered again keeps its place, and one that was given up is due again', async () => {
    const replica = await cluster.replica();
    const { taskNo } = await behind(replica);
    const store = storeOf(replica);
    const [claimed] = await store.claim(CLAIM);
    await store.progress(claimed!, { deliveredVersion: 1, attempts: 3, againInMs: Infinity, failed: 'down' });
    expect(await store.claim(CLAIM)).toEqual([]);
    await store.save(taskNo, registration('https://example.org/'));
    expect(await store.claim(CLAIM)).toMatchObject([{ deliveredVersion: 1, attempts: 0 }]);
  });

  it('one that is registered anew while it is told is told anew, whatever came of it before', async () => {
    const replica = await cluster.replica();
    const [old, changed] = [await PushReceiver.start(), await PushReceiver.start()];
    const answered = new Deferred();
    old.answer = (response) => void answered.promise.then(() => response.writeHead(410).end());
    const { taskNo } = await behind(replica, old.url());
    const dispatcher = dispatcherOf(replica);
    const round = dispatcher.runOnce();
    await old.until(() => old.received.length === 1);
    await storeOf(replica).save(taskNo, registration(changed.url()));
    // Nobody else has it meanwhile: a receiver is told by one at a time.
    expect(await storeOf(await cluster.replica()).claim(CLAIM)).toEqual([]);
    answered.resolve();
    await round;
    await dispatcher.runOnce();
    expect(changed.seen()).toEqual(['artifact a1']);
    expect(old.seen()).toEqual(['artifact a1']);
    expect(await rows()).toMatchObject([{ delivered: 2, attempts: 0, failed: null }]);
  });

  it('one that is registered again while its last try goes on has all its tries again', async () => {
    const replica = await cluster.replica();
    const store = storeOf(replica);
    const { taskNo } = await behind(replica);
    const [first] = await store.claim(CLAIM);
    await store.progress(first!, { deliveredVersion: 1, attempts: 2, againInMs: 0 });
    const [last] = await store.claim({ ...CLAIM, lastNotification: 'failed' });
    await store.save(taskNo, registration('https://example.com/'));
    const given = { deliveredVersion: 1, attempts: 3, againInMs: Infinity, failed: 'down' };
    expect(await store.progress(last!, given)).toBeUndefined();
    expect(await store.claim(CLAIM)).toMatchObject([{ deliveredVersion: 1, attempts: 0 }]);
  });

  it.each(['TypeORM', 'in-memory'])('are claimed all at once, those that did not fail first (%s)', async (kind) => {
    const replica = await cluster.replica();
    const [one, other] = [await replica.working(), await replica.working()];
    const level = new Set<number>();
    const store =
      kind === 'TypeORM' ? storeOf(replica) : new InMemoryPushConfigStore((taskNo) => (level.has(taskNo) ? 2 : 1));
    for (const { taskNo, loop, turn, scope } of [one, other]) {
      await store.save(taskNo, registration('https://example.com/'));
      loop.add(artifact(scope, 'a1'));
      await turn.flush();
      level.add(taskNo);
    }
    const { limit, claimMs, first } = CLAIM;
    const claimed = await store.claim({ limit, claimMs, first });
    expect(claimed).toHaveLength(2);
    const attemptsOf = ({ taskNo }: { taskNo: number }) => (taskNo === one.taskNo ? 1 : 0);
    for (const it of claimed) {
      await store.progress(it, { deliveredVersion: 1, attempts: attemptsOf(it), againInMs: -attemptsOf(it) });
    }
    const next = async () => (await store.claim({ limit: 1, claimMs, first })).map(({ taskNo }) => taskNo);
    expect([await next(), await next()]).toEqual([[other.taskNo], [one.taskNo]]);
  });

  it('I5 nothing is written for an event: a receiver is one row that is written a few times', async () => {
    const { database, get } = interceptable();
    const replica = await cluster.replica({ database });
    const receiver = await PushReceiver.start();
    const { scope, loop, turn } = await behind(replica, receiver.url());
    for (let chunk = 0; chunk < 300; chunk += 1) loop.add(artifact(scope, 'a1', `${chunk}`, true));
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    let writes = 0;
    get().intercept = (sql, run) => {
      if (/\b(INSERT|UPDATE|DELETE)\b/.test(sql)) writes += 1;
      return run();
    };
    const from = performance.now();
    await dispatcherOf(replica).runOnce();
    expect(receiver.seen()).toHaveLength(302);
    // Its place once a second, the end, and the claims, with those that found nothing.
    expect(writes).toBeLessThan(10 + (performance.now() - from) / 250);
    expect(await rows()).toMatchObject([{ delivered: 303, due: 'infinity' }]);
  });

  it('O47 one that was told what the database has lost since is brought level, and told what follows', async () => {
    const replica = await cluster.replica();
    const receiver = await PushReceiver.start();
    const { scope, loop, turn, taskNo } = await behind(replica, receiver.url());
    const backup = await backUp(cluster.db, taskNo);
    loop.add(artifact(scope, 'a1', 'lost', true));
    loop.add(status(scope, INPUT_REQUIRED));
    await turn.flush();
    const dispatcher = dispatcherOf(replica);
    await dispatcher.runOnce();
    expect(receiver.seen()).toHaveLength(3);
    await backup.restore();
    // As a dispatcher leaves it that was in the middle of it, and has recorded since what it told before.
    await cluster.db.query('UPDATE a2a_push_configs SET delivered_version = 4, claimed_until = NULL');
    await dispatcher.runOnce();
    expect(receiver.seen().slice(3)).toEqual(['artifact a1', 'status WORKING']);
    expect(await rows()).toMatchObject([{ delivered: 2 }]);
    await expireLeases(cluster.db);
    await replica.sweeper.runOnce();
    await dispatcher.runOnce();
    expect(receiver.seen().slice(5)).toEqual(['status FAILED']);
    expect(await rows()).toMatchObject([{ delivered: 3, due: 'infinity' }]);
  });

  it('O47 what is committed while the end of the log is looked for is told as it is, not made up for', async () => {
    const { database, get } = interceptable();
    const replica = await cluster.replica({ database });
    const receiver = await PushReceiver.start();
    const { scope, loop, turn } = await behind(replica, receiver.url());
    const dispatcher = dispatcherOf(replica);
    // The second page of the log is empty: before that is acted on, something comes.
    let pages = 0;
    const pause = new Pause(READ_EVENTS, 'after');
    get().intercept = (sql, run) => (READ_EVENTS.test(sql) && ++pages === 2 ? pause.intercept(sql, run) : run());
    const round = dispatcher.runOnce();
    await pause.reached;
    loop.add(artifact(scope, 'a1', 'more', true));
    await turn.flush();
    pause.resume();
    await round;
    await dispatcher.runOnce();
    expect(receiver.seen()).toEqual(['artifact a1', 'artifact a1']);
    expect(receiver.received[1]!.body).toMatchObject({ artifactUpdate: { append: true } });
  });

  it('O47 a replica that stood still until its claim had run out tells nothing any more', async () => {
    const { database, get } = interceptable();
    const replica = await cluster.replica({ database });
    const receiver = await PushReceiver.start();
    await behind(replica, receiver.url());
    const pause = new Pause(READ_EVENTS, 'after');
    get().intercept = pause.intercept;
    const frozen = dispatcherOf(replica).runOnce();
    await pause.reached;
    const now = performance.now.bind(performance);
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + 60_000);
    await cluster.db.query("UPDATE a2a_push_configs SET claimed_until = clock_timestamp() - interval '1 second'");
    await dispatcherOf(await cluster.replica()).runOnce();
    expect(receiver.seen()).toEqual(['artifact a1']);
    pause.resume();
    await frozen;
    clock.mockRestore();
    expect(receiver.seen()).toEqual(['artifact a1']);
    expect(await rows()).toMatchObject([{ delivered: 2, attempts: 0, failed: null }]);
  });

  it('O47 no event is passed over: where the log has a gap, the receiver is brought level', async () => {
    const replica = await cluster.replica();
    const receiver = await PushReceiver.start();
    const { taskNo, scope, loop, turn } = await behind(replica, receiver.url());
    loop.add(artifact(scope, 'a2'));
    loop.add(artifact(scope, 'a3'));
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    // Two replicas prune at once, and the one that has the older events has not committed: only those after 2 are gone.
    await cluster.db.query('DELETE FROM a2a_task_events WHERE task_no = $1 AND version IN (3, 4)', [taskNo]);
    await dispatcherOf(replica).runOnce();
    expect(receiver.seen()).toEqual(['artifact a1', 'artifact a1', 'artifact a2', 'artifact a3', 'status COMPLETED']);
  });

  it.each([0, 1])('a thousand receivers that are dead do not hold up others (%i failures so far)', async (attempts) => {
    const replica = await cluster.replica();
    const [receiver, silent] = [await PushReceiver.start(), await PushReceiver.start()];
    silent.answer = () => undefined;
    const closed = await PushReceiver.start();
    const refusing = closed.url();
    await closed.close();
    // Longer than any machine is busy: whoever has to wait for a dead one to run out of time is seen.
    const timeoutMs = 60_000;
    const dispatcher = dispatcherOf(replica, { ...PUSH_DEFAULTS, allow: OPTIONS.allow, timeoutMs });
    const { taskNo, scope, loop, turn } = await behind(replica, receiver.url());

    /** How long it takes until the one that is well has heard the next event. */
    const told = async (): Promise<number> => {
      const count = receiver.received.length;
      loop.add(artifact(scope, 'a2'));
      const from = performance.now();
      await turn.flush();
      dispatcher.registered();
      await receiver.until(() => receiver.received.length > count, 25_000);
      return performance.now() - from;
    };
    await told();
    const alone = await told();
    await cluster.db.query(
      `INSERT INTO a2a_push_configs (task_no, config_id, config, wire_version, delivered_version, attempts)
       SELECT $1, 'dead' || n, json_build_object('id', 'dead' || n, 'url', CASE n % 10 WHEN 0 THEN $3 ELSE $2 END),
              '1.0', 1, $4::integer FROM generate_series(1, 1000) AS n`,
      [taskNo, silent.url(), refusing, attempts],
    );
    const beside = [await told(), await told(), await told()];
    await silent.until(() => silent.received.length > 0);
    expect(Math.max(...beside) - alone).toBeLessThan(timeoutMs / 4);
    await dispatcher.stop();
  });

  it('one that does not answer gives its place to another', async () => {
    const replica = await cluster.replica();
    const [receiver, silent] = [await PushReceiver.start(), await PushReceiver.start()];
    silent.answer = () => undefined;
    const { taskNo, scope, loop, turn } = await behind(replica, receiver.url());
    const dispatcher = dispatcherOf(replica, { maxConcurrentDeliveries: 4, timeoutMs: 60_000 });
    await dispatcher.runOnce();
    for (let count = 0; count < 10; count += 1) {
      await storeOf(replica).save(taskNo, registration(silent.url(), `silent ${count}`));
    }
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    dispatcher.registered();
    // More than there are places; without waiting for one to run out of time.
    await silent.until(() => silent.received.length === 10);
    await receiver.until(() => receiver.seen().includes('status COMPLETED'));
    await dispatcher.stop();
  });

  it('stopping gives back what is not told, without counting it as a failure', async () => {
    const replica = await cluster.replica();
    const silent = await PushReceiver.start();
    silent.answer = () => undefined;
    await behind(replica, silent.url());
    const dispatcher = dispatcherOf(replica);
    const round = dispatcher.runOnce();
    await eventually(() => silent.received.length === 1);
    await dispatcher.stop();
    await round;
    expect(await rows()).toMatchObject([{ delivered: 1, attempts: 0, failed: null }]);
    expect(await storeOf(replica).claim(CLAIM)).toHaveLength(1);
  });
});
