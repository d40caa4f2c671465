import { send } from '../../tools/harness/client.js';
import { LOAD_MS, SLOW_MS, TestCluster } from '../helpers/cluster.js';
import { PushReceiver } from '../helpers/push-receiver.js';
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
});
