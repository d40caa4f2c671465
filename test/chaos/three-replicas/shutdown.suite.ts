import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { cancel, getTask, send } from '../../../tools/harness/client.js';
import { LOAD_MS, SLOW_MS, TIMES } from '../../helpers/cluster.js';
import { Recording, stateName } from '../../helpers/recording.js';
import {
  expectEnded,
  expectFollowed,
  expectSound,
  readLog,
  type TaskLog,
  userMessages,
} from '../../helpers/task-log.js';
import { eventually } from '../../../tools/harness/wait.js';
import { cluster } from './cluster.js';

/** Longer than the TTL: a turn outlives it only if its lease is renewed while the replica drains. */
const DRAIN_MS = 4_000;

/** What a shutdown writes by the library's own word; a sweeper would speak of a lease that has run out. */
const SHUTDOWN = /shut(ting)? ?down/i;

/** D is asked to end (SIGTERM) while it works. */
export const shutdowns = (): void =>
  describe('Replicas that shut down', () => {
    const log = (taskId: string) => readLog(cluster.database, taskId);

    /** It ended by itself, in order, and its turn ended FAILED before that, not after a sweep. */
    async function expectGraceful(code: number | null, taskId: string): Promise<TaskLog> {
      expect(code).toBe(0);
      const stored = await log(taskId);
      expectEnded(stored, 'FAILED');
      expect(stored.entries.at(-1)?.text).toMatch(SHUTDOWN);
      return stored;
    }

    it(
      'O45 SIGTERM mid-turn: renewals while it drains, then FAILED for everybody, exit 0, no lease',
      async () => {
        const { a, b } = cluster;
        const d = await cluster.add('D', { A2A_DRAIN_MS: DRAIN_MS });
        const sender = Recording.send(d.client, 'work 60');
        const { id } = await sender.task();
        const short = Recording.send(d.client, 'stream 40 20');
        const shortId = (await short.task()).id;
        const waiting = await send(a.client, 'ask go on?');
        const watchers = [a, b, d].map(({ client }) => Recording.subscribe(client, id));
        const idle = Recording.subscribe(d.client, waiting.id);
        await Promise.all([...watchers, idle].map((recording) => recording.task()));

        const [now] = await cluster.database.query<{ now: Date }>('SELECT clock_timestamp() AS now');
        const stopped = d.process.stop(DRAIN_MS + TIMES.cancel + LOAD_MS);
        const refused = async (): Promise<boolean> =>
          send(d.client, 'say hello').then(
            () => false,
            () => true,
          );
        await eventually(refused, { timeoutMs: DRAIN_MS });
        expect(stateName(await getTask(d.client, id))).toBe('WORKING');

        const code = await stopped;
        const stored = await expectGraceful(code, id);
        const drained = stored.entries.at(-1)!.at.getTime() - now!.now.getTime();
        expect(drained).toBeGreaterThanOrEqual(DRAIN_MS - 50);
        expect(drained).toBeLessThan(DRAIN_MS + LOAD_MS);
        for (const recording of [sender, ...watchers]) expectFollowed(await recording.finished(), stored);
        // What could end by itself did, and who followed a task that only waits is let go.
        const ended = await log(shortId);
        expectEnded(ended, 'COMPLETED');
        expectFollowed(await short.finished(), ended);
        expect(await idle.finished()).toHaveLength(1);
        await cancel(a.client, waiting.id);
      },
      SLOW_MS,
    );

    it(
      'O46 SIGTERM with an executor that is deaf: bounded all the same, what it says late is not accepted',
      async () => {
        const { a } = cluster;
        const d = await cluster.add('D');
        // Some of them come back about when the drain ends: just before, and complete, or just after, and are not heard.
        const returning = [1, 1.1, 1.2, 1.3, 1.4, 1.5].map(
          (factor) => `deaf ${(TIMES.drain * factor) / 1_000}\nsay late`,
        );
        // Followed before they begin: on a busy machine the shortest would be over before anybody could subscribe.
        const texts = ['deaf 60', ...returning];
        const tasks = await Promise.all(texts.map(() => send(a.client, 'ask ready?')));
        const watchers = tasks.map(({ id }) => Recording.subscribe(a.client, id));
        await Promise.all(watchers.map((recording) => recording.task()));
        const begun = texts.map((text, at) => Recording.send(d.client, text, { taskId: tasks[at]!.id }).task());
        await Promise.all(begun);

        const code = await d.process.stop(TIMES.drain + TIMES.cancel + LOAD_MS);
        expect(code).toBe(0);
        for (const [at, { id }] of tasks.entries()) {
          const stored = await log(id);
          // Who says FAILED is another matter: where the machine is so busy that a lease runs out, it is a sweeper.
          expectEnded(stored, stored.entries.some(({ text }) => text === 'late') ? 'COMPLETED' : 'FAILED');
          expectFollowed(await watchers[at]!.finished(), stored);
        }
      },
      SLOW_MS,
    );

    it(
      'O45 SIGTERM at any early moment of a turn: what was accepted is FAILED when the process is gone',
      async () => {
        const { a } = cluster;
        let accepted = 0;
        for (let round = 0; round < 3; round += 1) {
          const d = await cluster.add('D', { A2A_DRAIN_MS: 50 });
          const { id: waiting } = await send(a.client, 'ask go on?');
          const text = `say shutdown ${round}\nwork 60`;
          const sent = [undefined, undefined, undefined, waiting].map((taskId) =>
            Recording.send(d.client, text, taskId === undefined ? {} : { taskId }),
          );
          // One more of them each time has been told of its task; where the others are, the moment decides.
          await Promise.all(sent.slice(0, round).map((recording) => recording.task()));
          await pause(randomInt(10));
          const code = await d.process.stop(TIMES.cancel + LOAD_MS);
          expect(code).toBe(0);
          expect(await cluster.database.query('SELECT * FROM a2a_task_leases')).toEqual([]);

          for (const recording of sent) {
            const { how } = await recording.ended;
            const id = recording.responses.length > 0 ? (await recording.task()).id : undefined;
            if (id === undefined) continue;
            accepted += 1;
            const stored = await expectGraceful(code, id);
            expect(userMessages(stored, text)).toBe(1);
            expectFollowed(recording.responses, stored);
            expect(how).toBe('finished');
          }
          const followUp = await log(waiting);
          expectSound(followUp);
          expect(followUp.state).toBe(userMessages(followUp, text) === 1 ? 'FAILED' : 'INPUT_REQUIRED');
          if (followUp.state !== 'FAILED') await cancel(a.client, waiting);
        }
        expect(accepted).toBeGreaterThan(0);
      },
      SLOW_MS,
    );
  });
