import { cancel, errorName, getTask, send, stream } from '../../tools/harness/client.js';
import { LOAD_MS, SLOW_MS, TestCluster, TIMES } from '../helpers/cluster.js';
import { Recording, stateName, summaryOf } from '../helpers/recording.js';
import { expectEnded, expectFollowed, expectSound, readLog, userMessages } from '../helpers/task-log.js';
import { eventually } from '../../tools/harness/wait.js';

/** Longer than elsewhere, so that a busy machine gets a follow-up through well within the gap and the heartbeat. */
const HEARTBEAT_MS = 2_000;
const TTL_MS = 3 * HEARTBEAT_MS;

/** How long an executor keeps running after AUTH_REQUIRED: the gap, which a follow-up waits out. */
const GAP_MS = 1_000;
const AUTH = `auth ${GAP_MS / 1_000}`;

/** What the agent's timer, its clock and the database's may differ by. */
const CLOCK_MS = 5;

/** AUTH_REQUIRED is out for everybody to see, and the executor keeps running, its lease held. */
describe('Executors that keep running after AUTH_REQUIRED', () => {
  let cluster: TestCluster;

  beforeAll(async () => {
    cluster = await TestCluster.start({ A2A_HEARTBEAT_MS: HEARTBEAT_MS, A2A_TTL_MS: TTL_MS }, ['A', 'B']);
  }, SLOW_MS);

  afterAll(() => cluster.stop());

  const log = (taskId: string) => readLog(cluster.database, taskId);

  /** The lease on a task in AUTH_REQUIRED, which shows that its executor has not returned. */
  async function expectHeldByA(taskId: string) {
    const lease = await cluster.lease(taskId);
    expect(lease?.pid).toBe(cluster.a.process.pid);
    return lease!;
  }

  it.each(['blocking', 'streaming'])('O19 a %s follow-up at B in the gap waits for the release', async (kind) => {
    const { a, b } = cluster;
    const asked = await send(a.client, AUTH);
    const { id } = asked;
    expect(stateName(asked)).toBe('AUTH_REQUIRED');
    await expectHeldByA(id);

    const sentAt = Date.now();
    const text = 'say it is me';
    if (kind === 'blocking') expect(stateName(await send(b.client, text, { taskId: id }))).toBe('COMPLETED');
    else await Recording.send(b.client, text, { taskId: id }).finished();

    const stored = await log(id);
    expectEnded(stored, 'COMPLETED');
    expect(userMessages(stored, text)).toBe(1);
    const admittedAt = stored.entries.find((entry) => entry.text === text)!.at.getTime();
    expect(admittedAt - Date.parse(asked.status!.timestamp!)).toBeGreaterThanOrEqual(GAP_MS - CLOCK_MS);
    expect(admittedAt - sentAt).toBeLessThan(HEARTBEAT_MS);
  });

  it('O19 the gap is longer than a heartbeat: the follow-up is refused and leaves no trace', async () => {
    const { a, b } = cluster;
    const { id, history } = await send(a.client, 'auth 60');
    const { generation } = await expectHeldByA(id);

    const sentAt = performance.now();
    const refusals = [send(b.client, 'it is me', { taskId: id }), stream(b.client, 'it is me', { taskId: id })];
    for (const name of await Promise.all(refusals.map(errorName))) expect(name).toBe('UnsupportedOperationError');
    expect(performance.now() - sentAt).toBeGreaterThanOrEqual(HEARTBEAT_MS);

    const stored = await log(id);
    expectSound(stored);
    expect(stored).toMatchObject({ state: 'AUTH_REQUIRED', version: 2 });
    expect((await getTask(b.client, id)).history).toEqual(history);
    expect((await expectHeldByA(id)).generation).toBe(generation);

    expect(stateName(await cancel(b.client, id))).toBe('CANCELED');
    await a.process.waitForLine(new RegExp(`task ${id}: signal aborted: TASK_CANCELED`));
    expectEnded(await log(id), 'CANCELED');
  });

  it('O19 the executor goes on by itself: streams stay open and see all, who waits to answer is refused', async () => {
    const { a, b, all } = cluster;
    const { id } = await send(b.client, 'ask go on?');
    const early = all.map(({ client }) => Recording.subscribe(client, id));
    await Promise.all(early.map((recording) => recording.task()));

    const sender = Recording.send(a.client, `${AUTH}\nsay never mind\nstream 20 5`, { taskId: id });
    await early[1]!.waitFor((response) => summaryOf(response) === 'status AUTH_REQUIRED');
    const late = all.map(({ client }) => Recording.subscribe(client, id));
    for (const recording of late) expect(stateName(await recording.task())).toBe('AUTH_REQUIRED');
    await expectHeldByA(id);
    expect(await errorName(send(b.client, 'it is me', { taskId: id }))).toBe('UnsupportedOperationError');

    await sender.finished();
    const stored = await log(id);
    expectEnded(stored, 'COMPLETED');
    expect(userMessages(stored, 'it is me')).toBe(0);
    for (const recording of [sender, ...early, ...late]) expectFollowed(await recording.finished(), stored);
  });

  it(
    'O19 O30 the holder is killed in the gap: its lease is dropped, the task waits on and is answered',
    async () => {
      const { a, b } = cluster;
      const { id } = await send(a.client, 'auth 60');
      const watcher = Recording.subscribe(b.client, id);
      await watcher.task();
      const { expiresAt } = await expectHeldByA(id);
      await cluster.kill('A');

      await eventually(async () => !(await cluster.lease(id)), { timeoutMs: TTL_MS + TIMES.sweep + LOAD_MS });
      expect(Date.now()).toBeGreaterThanOrEqual(expiresAt.getTime());
      const waiting = await log(id);
      expectSound(waiting);
      expect(waiting).toMatchObject({ state: 'AUTH_REQUIRED', version: 2, leases: 0 });

      expect(stateName(await send(b.client, 'say it is me', { taskId: id }))).toBe('COMPLETED');
      const stored = await log(id);
      expectEnded(stored, 'COMPLETED');
      expectFollowed(await watcher.finished(), stored);
    },
    SLOW_MS,
  );
});
