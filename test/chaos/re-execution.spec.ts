import { getTask, send } from '../../tools/harness/client.js';
import { LOAD_MS, type Member, SLOW_MS, TestCluster } from '../helpers/cluster.js';
import { Recording, stateName } from '../helpers/recording.js';
import { expectFollowed, lastTaskId, readLog, type TaskLog, userMessages } from '../helpers/task-log.js';
import { eventually } from '../../tools/harness/wait.js';

const TIMES = { ttl: 1_500, sweep: 250, backoff: 100 };
const ENVIRONMENT = {
  A2A_POLICY: 're-execute',
  A2A_TTL_MS: TIMES.ttl,
  A2A_HEARTBEAT_MS: 400,
  A2A_SWEEP_MS: TIMES.sweep,
  A2A_BACKOFF_MS: TIMES.backoff,
};

/** From the death of a replica to the next attempt, on a machine that is busy with something else. */
const AGAIN_MS = TIMES.ttl + TIMES.sweep + TIMES.backoff + LOAD_MS;

/** The cut-off attempt and the one after it number their events on their own: all but that is as in any log. */
function expectCompleted(log: TaskLog, state = 'COMPLETED'): void {
  expect(log).toMatchObject({ state, leases: 0, version: log.entries.length });
  expect(log.entries.map(({ version }) => version)).toEqual(log.entries.map((_, at) => at + 1));
  const ends = log.entries.filter((entry) => /COMPLETED|FAILED|CANCELED/.test(entry.state ?? ''));
  expect(ends.map(({ version }) => version)).toEqual([log.version]);
}

/** Replicas that die in a turn that other replicas run again. At exact points: race-points/killed. */
describe('Turns that are run again', () => {
  let cluster: TestCluster;

  beforeAll(async () => {
    cluster = await TestCluster.start(ENVIRONMENT, ['B', 'C']);
  }, SLOW_MS);

  afterEach(async () => {
    for (const name of ['A', 'B', 'C']) {
      const there = cluster.all.some((member) => member.name === name);
      if (name === 'A' && there) await cluster.kill('A');
      if (name !== 'A' && !there) await cluster.add(name);
    }
  });

  afterAll(() => cluster.stop());

  const log = (taskId: string) => readLog(cluster.database, taskId);

  /**
   * Attempt and holder of the lease on a task; a lease that was handed over has no holder. `before`: how many runs have
   * begun before the one that is under way, if there is one.
   */
  const lease = async (
    taskId: string,
  ): Promise<{ attempt: number; before: number; holder: string | null } | undefined> => {
    const [row] = await cluster.database.query<{ attempt: number; before: number; holder: string | null }>(
      `SELECT l.attempt, l.attempt - l.begun::integer AS before, l.holder
         FROM a2a_task_leases AS l JOIN a2a_tasks AS t USING (task_no) WHERE t.task_id = $1`,
      [taskId],
    );
    return row;
  };

  it(
    'O35 O36 killed in the first attempt and in the second: the third completes, nothing doubled',
    async () => {
      const text = 'stream 20 100';
      const a = await cluster.add('A');
      const sender = Recording.send(a.client, text);
      const { id } = await sender.task();
      const watcher = Recording.subscribe(cluster.c.client, id);
      await watcher.waitFor(({ payload }) => payload?.$case === 'artifactUpdate');
      await cluster.kill('A');

      const second = await eventually(
        async () => {
          const held = await lease(id);
          return held?.attempt === 2 && held.holder ? held.holder : undefined;
        },
        { timeoutMs: AGAIN_MS },
      );
      const holder = cluster.all.find(({ process }) => second!.includes(`:${process.pid}:`));
      // B runs it, or C: then the follower has to go on elsewhere.
      const survivor = cluster.all.find(({ name }) => name !== holder?.name)!;
      const follower = Recording.subscribe(survivor.client, id);
      const { version } = await log(id);
      await eventually(async () => (await log(id)).version > version + 3, { timeoutMs: AGAIN_MS });
      await cluster.kill(holder!.name);
      await follower.finished(2 * AGAIN_MS);

      const stored = await log(id);
      expectCompleted(stored);
      expectFollowed(follower.responses, stored);
      expect(userMessages(stored, text)).toBe(1);
      const { artifacts } = await getTask(survivor.client, id);
      expect(artifacts.map(({ parts }) => parts.map(({ content }) => String(content?.value).trim()))).toEqual([
        Array.from({ length: 20 }, (_, at) => String(at + 1)),
      ]);
    },
    2 * SLOW_MS,
  );

  it(
    'O35 a request that kills its process on every attempt: FAILED after three, and never again',
    async () => {
      const { c } = cluster;
      const a = await cluster.add('A');
      const deaths: string[] = [];
      const watch = (member: Member): void => void member.process.exited.then(() => deaths.push(member.name));
      [a, cluster.b, c].forEach(watch);
      const { id } = await Recording.send(a.client, 'exit')
        .task()
        .catch(() => ({ id: undefined }));
      const taskId = id ?? (await lastTaskId(cluster.database));
      // Whoever dies of it comes back, as its orchestrator would see to.
      for (let died = 1; died <= 3; died += 1) {
        await eventually(() => deaths.length >= died, { timeoutMs: AGAIN_MS });
        const member = await cluster.add(deaths[died - 1]!);
        watch(member);
      }
      await eventually(async () => (await log(taskId)).leases === 0, { timeoutMs: AGAIN_MS });
      const stored = await log(taskId);
      expectCompleted(stored, 'FAILED');
      expect(stored.entries.at(-1)!.text).toContain('run 3 times');
      expect(deaths).toHaveLength(3);
    },
    3 * SLOW_MS,
  );

  it(
    'O35 O45 SIGTERM hands the turn over: another replica completes it, in the same attempt',
    async () => {
      const a = await cluster.add('A', { A2A_DRAIN_MS: 100 });
      const sender = Recording.send(a.client, 'stream 15 100');
      const { id } = await sender.task();
      const watcher = Recording.subscribe(cluster.c.client, id);
      await watcher.waitFor(({ payload }) => payload?.$case === 'artifactUpdate');
      expect(await a.process.stop(LOAD_MS)).toBe(0);
      const handedOver = await lease(id);
      await watcher.finished(AGAIN_MS);

      const stored = await log(id);
      expectCompleted(stored);
      expectFollowed(watcher.responses, stored);
      // What was handed over is not counted, whether or not another replica has begun to run it by now.
      if (handedOver) expect(handedOver.before).toBe(0);
      const [artifact] = (await getTask(cluster.c.client, id)).artifacts;
      expect(artifact!.parts).toHaveLength(15);
      expect(stateName(await send(cluster.c.client, 'say still here'))).toBe('COMPLETED');
    },
    SLOW_MS,
  );
});
