import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { getTask, send } from '../../tools/harness/client.js';
import { LOAD_MS, SLOW_MS, TestCluster, TIMES } from '../helpers/cluster.js';
import { Recording, stateName } from '../helpers/recording.js';
import {
  expectEnded,
  expectFollowed,
  expectSound,
  readLog,
  recoveryOf,
  type TaskLog,
  userMessages,
} from '../helpers/task-log.js';
import { eventually } from '../../tools/harness/wait.js';

/** After its last heartbeat nothing may be decided about a replica's turn before this, in ms of the database's clock. */
const SOONEST_MS = TIMES.ttl - 5;
const LATEST_MS = TIMES.ttl + TIMES.sweep + LOAD_MS;

/** How often a replica is killed early in the turns of five messages. */
const ROUNDS = 6;

/** Replicas are killed in the middle of a turn; those that are left end it. */
describe('Killed replicas', () => {
  let cluster: TestCluster;

  beforeAll(async () => {
    cluster = await TestCluster.start({}, ['A', 'B', 'C', 'D']);
  }, SLOW_MS);

  afterAll(() => cluster.stop());

  const log = (taskId: string) => readLog(cluster.database, taskId);

  function expectRecovered(stored: TaskLog, ...pids: number[]): void {
    expectEnded(stored, 'FAILED');
    const { lastHolder, lastHeartbeat, at } = recoveryOf(stored);
    expect(pids).toContain(Number(lastHolder.split(':').at(-2)));
    expect(at.getTime() - lastHeartbeat.getTime()).toBeGreaterThanOrEqual(SOONEST_MS);
    expect(at.getTime() - lastHeartbeat.getTime()).toBeLessThan(LATEST_MS);
  }

  it('O28 three sweepers, the leases of one dead replica: one claim and one FAILED event each', async () => {
    const { all } = cluster;
    const dead = all.find(({ name }) => name === 'D')!;
    const generation = await lastGeneration();
    const tasks = await Promise.all(Array.from({ length: 6 }, () => Recording.send(dead.client, 'work 60').task()));
    const sweepers = [cluster.a, cluster.b, cluster.c];
    const watchers = tasks.flatMap(({ id }) => sweepers.map(({ client }) => Recording.subscribe(client, id)));
    await Promise.all(watchers.map((recording) => recording.task()));
    await cluster.kill('D');

    for (const recording of watchers) await recording.finished(LATEST_MS);
    for (const [at, { id }] of tasks.entries()) {
      const stored = await log(id);
      expectRecovered(stored, dead.process.pid);
      for (const { responses } of watchers.slice(at * 3, at * 3 + 3)) expectFollowed(responses, stored);
    }
    // Of each task one lease and one claim, also of those that a busy machine let expire before the kill.
    expect((await lastGeneration()) - generation).toBe(2 * tasks.length);
  });

  it(
    'O23 O49 killed at any early moment of a turn: every task that exists ends FAILED, no lease is left',
    async () => {
      const started = new Map(cluster.all.map((member) => [member.name, Promise.resolve(member)]));
      const rounds: { waiting: string; text: string; pid: number }[] = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        const [victim, survivor] = ['ABC'.charAt(round % 3), 'ABC'.charAt((round + 2) % 3)];
        // One replica at least is always there to sweep.
        const [member] = await Promise.all([started.get(victim)!, started.get(survivor)]);
        const { id: waiting } = await send(member.client, 'ask go on?');
        const text = `say ${round}\nwork 60`;
        // When the kill comes, some have been told of their task, and each of the others is at a moment of its own.
        const turns: Recording[] = [];
        for (const taskId of [undefined, undefined, waiting, undefined, undefined]) {
          turns.push(Recording.send(member.client, text, taskId === undefined ? {} : { taskId }));
          await pause(randomInt(10));
        }
        await Promise.all(turns.slice(0, round % 5).map((recording) => recording.task()));
        await cluster.kill(victim);
        rounds.push({ waiting, text, pid: member.process.pid });
        if (round < ROUNDS - 2) started.set(victim, cluster.add(victim));
      }
      await Promise.all(started.values());
      const ended = async (): Promise<boolean> =>
        (await cluster.database.query('SELECT 1 FROM a2a_task_leases')).length === 0;
      await eventually(ended, { timeoutMs: LATEST_MS });

      const tasks = await cluster.database.query<{ id: string }>(
        `SELECT task_id AS id FROM a2a_tasks
          WHERE created_at >= (SELECT created_at FROM a2a_tasks WHERE task_id = $1)`,
        [rounds[0]!.waiting],
      );
      let killed = 0;
      for (const { id } of tasks) {
        const stored = await log(id);
        const round = rounds.find(({ text }) => userMessages(stored, text) > 0);
        if (round) {
          killed += 1;
          // A sweeper may have been killed in its turn, with the lease that it had claimed.
          expectRecovered(stored, ...rounds.map(({ pid }) => pid));
          expect(userMessages(stored, round.text)).toBe(1);
          expect(stateName(await getTask(cluster.all[0]!.client, id))).toBe('FAILED');
        } else {
          // A follow-up that was not admitted has left nothing: the task waits on.
          expectSound(stored);
          expect(rounds.map(({ waiting }) => waiting)).toContain(id);
          expect(stored).toMatchObject({ state: 'INPUT_REQUIRED', leases: 0, version: 2 });
        }
      }
      expect(killed).toBeGreaterThan(ROUNDS);
    },
    SLOW_MS,
  );

  /** The last generation that was drawn: every claim draws one. */
  async function lastGeneration(): Promise<number> {
    const [row] = await cluster.database.query<{ last: string }>(
      "SELECT pg_sequence_last_value(pg_get_serial_sequence('a2a_task_leases', 'generation')) AS last",
    );
    return Number(row?.last);
  }
});
