import { send } from '../../tools/harness/client.js';
import { LOAD_MS, SLOW_MS, TestCluster, TIMES } from '../helpers/cluster.js';
import { PushReceiver } from '../helpers/push-receiver.js';
import { Deferred, eventually } from '../../tools/harness/wait.js';
import { readLog, type TaskLog } from '../helpers/task-log.js';

/** Replicas that die while they tell push receivers: another one goes on where the log says that they stand. */
describe('Push over crashes', () => {
  let cluster: TestCluster;
  const push = { A2A_PUSH_ALLOW: '127.0.0.0/8' };

  beforeAll(async () => {
    cluster = await TestCluster.start(push, ['B']);
  }, SLOW_MS);

  afterAll(() => cluster.stop());

  const configOf = (receiver: PushReceiver) => ({
    configuration: {
      taskPushNotificationConfig: {
        ...{ tenant: '', id: 'hook', taskId: '', url: receiver.url(), token: '', authentication: undefined },
      },
    },
  });

  /** The claim of one that died would run out after twice the time that a receiver has to answer. */
  const dropClaims = () =>
    cluster.database.query('UPDATE a2a_push_configs SET claimed_until = clock_timestamp() WHERE failed IS NULL');

  /** What a receiver has to be told of a log. */
  const pushed = ({ entries }: TaskLog): unknown[] => entries.flatMap(({ response }) => response ?? []);

  /** Each event after the first few once or more, none before one that comes before it, and nothing else. */
  async function expectTold(receiver: PushReceiver, taskId: string, after: number): Promise<void> {
    const expected = pushed(await readLog(cluster.database, taskId)).map((response) => JSON.stringify(response));
    const bodies = (): string[] => receiver.received.map(({ body }) => JSON.stringify(body));
    await receiver.until(() => bodies().includes(expected.at(-1)!), LOAD_MS);
    expect(bodies().filter((body, at, all) => all.indexOf(body) === at)).toEqual(expected.slice(after));
  }

  it(
    'O48 killed between the commit and the POST: another replica delivers what is in the log',
    async () => {
      const a = await cluster.add('A', push);
      const receiver = await PushReceiver.start();
      const { id } = await send(a.client, 'ask go on?', configOf(receiver));
      await receiver.until(() => receiver.seen().includes('status INPUT_REQUIRED'), LOAD_MS);

      // Nothing gets through from here on: what is committed is not told.
      const { port } = receiver;
      await receiver.close();
      await send(a.client, 'stream 5 0\nask and now?', { taskId: id });
      await cluster.kill('A');
      await cluster.kill('B');

      const back = await PushReceiver.start(port);
      await cluster.add('B', push);
      await dropClaims();
      await send(cluster.b.client, 'say done', { taskId: id });
      await expectTold(back, id, receiver.received.length);
    },
    SLOW_MS,
  );

  it(
    'O48 killed during the POST: the receiver is told again by another replica, and on, in order',
    async () => {
      const a = await cluster.add('A', push);
      await cluster.kill('B');
      const receiver = await PushReceiver.start();
      receiver.answer = () => undefined;
      const { id } = await send(a.client, 'stream 3 0\nask go on?', configOf(receiver));
      await receiver.until(() => receiver.received.length === 1, LOAD_MS);
      await cluster.kill('A');

      receiver.answer = 200;
      await cluster.add('B', push);
      await dropClaims();
      await expectTold(receiver, id, 0);
      expect(receiver.seen().slice(0, 2)).toEqual(['task WORKING', 'task WORKING']);
    },
    SLOW_MS,
  );

  interface Row {
    delivered: number;
    attempts: number;
    failed: string | null;
  }

  const rowOf = async (taskId: string): Promise<Row> =>
    (
      await cluster.database.query<Row>(
        `SELECT p.delivered_version AS delivered, p.attempts, p.failed
           FROM a2a_push_configs AS p JOIN a2a_tasks AS t USING (task_no) WHERE t.task_id = $1 AND p.config_id = 'hook'`,
        [taskId],
      )
    )[0]!;

  /** A task that waits for its client, and a receiver that is known to know. */
  async function waiting(): Promise<{ receiver: PushReceiver; id: string }> {
    const receiver = await PushReceiver.start();
    const { id } = await send(cluster.b.client, 'ask go on?', configOf(receiver));
    const { version } = await readLog(cluster.database, id);
    await eventually(async () => (await rowOf(id)).delivered === version, { timeoutMs: LOAD_MS });
    return { receiver, id };
  }

  it(
    'O47 a receiver that is down for a while is told all of it once it is back, in order',
    async () => {
      await cluster.add('A', push);
      const { receiver, id } = await waiting();
      const { port } = receiver;
      await receiver.close();
      await send(cluster.a.client, 'stream 3 0\nsay done', { taskId: id });
      await eventually(async () => (await rowOf(id)).attempts > 1, { timeoutMs: LOAD_MS });
      const back = await PushReceiver.start(port);
      await expectTold(back, id, receiver.received.length);
      // Nobody died: nothing comes twice.
      expect(back.received.length + receiver.received.length).toBe(pushed(await readLog(cluster.database, id)).length);
    },
    SLOW_MS,
  );

  it(
    'O47 a receiver that takes longer than a heartbeat is told once and in order, and holds up no other of its task',
    async () => {
      const { receiver, id } = await waiting();
      const slow = await PushReceiver.start();
      const others = new Deferred();
      slow.answer = (response) => void others.promise.then(() => response.writeHead(200).end());
      const { taskPushNotificationConfig } = configOf(slow).configuration;
      await cluster.a.client.createTaskPushNotificationConfig({
        ...taskPushNotificationConfig,
        id: 'slow',
        taskId: id,
      });
      const known = receiver.received.length;
      // Its first answer comes when the other one knows the end, which is after two heartbeats.
      await send(cluster.b.client, `work ${(2 * TIMES.heartbeat) / 1_000}\nsay done`, { taskId: id });
      await expectTold(receiver, id, 0);
      expect(slow.received.length).toBeLessThanOrEqual(1);
      others.resolve();
      await expectTold(slow, id, known);
      expect(slow.received.length + known).toBe(receiver.received.length);
    },
    SLOW_MS,
  );

  it(
    'O47 a receiver that answers 410 is given up with the reason, and goes on where it stood when it is registered again',
    async () => {
      const { receiver, id } = await waiting();
      const { delivered } = await rowOf(id);
      receiver.answer = 410;
      await send(cluster.a.client, 'stream 3 0\nask and now?', { taskId: id });
      await eventually(async () => (await rowOf(id)).failed, { timeoutMs: LOAD_MS });
      const given = await rowOf(id);
      expect(given).toMatchObject({ failed: `127.0.0.1:${receiver.port} answered 410` });
      const { version } = await readLog(cluster.database, id);
      expect(given.delivered).toBeLessThan(version);
      expect(given.delivered).toBeGreaterThanOrEqual(delivered);

      receiver.answer = 200;
      const { taskPushNotificationConfig } = configOf(receiver).configuration;
      await cluster.b.client.createTaskPushNotificationConfig({ ...taskPushNotificationConfig, taskId: id });
      await expectTold(receiver, id, 0);
      expect(await rowOf(id)).toMatchObject({ attempts: 0, failed: null });
    },
    SLOW_MS,
  );
});
