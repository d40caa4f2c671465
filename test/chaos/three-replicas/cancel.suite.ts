import { setTimeout as pause } from 'node:timers/promises';
import type { Task } from '@a2a-js/sdk';
import { cancel, errorName, errorOf, getTask, send } from '../../../tools/harness/client.js';
import { LOAD_MS, TIMES } from '../../helpers/cluster.js';
import { Recording, stateName, summaryOf } from '../../helpers/recording.js';
import { expectEnded, expectFollowed, readLog, userMessages } from '../../helpers/task-log.js';
import { cluster } from './cluster.js';

/** A task is canceled at one replica while another one runs it. */
export const cancels = (): void =>
  describe('Cancel across replicas', () => {
    const log = (taskId: string) => readLog(cluster.database, taskId);

    it('O40 cancel at B while A works: CANCELED for all, the signal aborts, COMPLETED never appears', async () => {
      const { a, b, c } = cluster;
      const sender = Recording.send(a.client, 'work 60');
      const { id } = await sender.task();
      const watcher = Recording.subscribe(c.client, id);
      await watcher.task();

      const since = performance.now();
      expect(stateName(await cancel(b.client, id))).toBe('CANCELED');
      expect(performance.now() - since).toBeLessThan(TIMES.cancel + TIMES.poll + LOAD_MS);
      await a.process.waitForLine(new RegExp(`^task ${id}: signal aborted: TASK_CANCELED$`));

      const stored = await log(id);
      expectEnded(stored, 'CANCELED');
      for (const recording of [sender, watcher]) expectFollowed(await recording.finished(), stored);
      expect(stateName(await cancel(a.client, id))).toBe('CANCELED');
      expect((await log(id)).version).toBe(stored.version);
    });

    it('O40 an executor that is deaf to the cancel: CANCELED within the cancel timeout, what it says later is dropped', async () => {
      const { a, b, c } = cluster;
      const sender = Recording.send(a.client, 'deaf 2.5\nsay too late');
      const { id } = await sender.task();
      const watcher = Recording.subscribe(c.client, id);
      await watcher.task();

      const since = performance.now();
      expect(stateName(await cancel(b.client, id))).toBe('CANCELED');
      const took = performance.now() - since;
      expect(took).toBeGreaterThan(TIMES.cancel * 0.9);
      expect(took).toBeLessThan(TIMES.cancel + TIMES.poll + LOAD_MS);
      const stored = await log(id);
      expectEnded(stored, 'CANCELED');
      for (const recording of [sender, watcher]) expectFollowed(await recording.finished(), stored);

      // The holder says so when the executor comes back and publishes.
      await a.process.waitForLine(new RegExp(`Dropped a \\w+ for task ${id}`));
      expect(await log(id)).toEqual(stored);
      expect(stateName(await getTask(b.client, id))).toBe('CANCELED');
    });

    it('O41 cancel races completion: one end, one terminal event, and the canceler is told which', async () => {
      const { a, b, c } = cluster;
      const ends = new Map<string, number>();
      let delayMs = 6;
      for (let round = 0; round < 30; round += 1) {
        const { id } = await send(c.client, 'ask go on?');
        const watcher = Recording.subscribe(c.client, id);
        await watcher.task();
        const turn = Recording.send(a.client, 'stream 3 1', { taskId: id });
        await pause(delayMs);
        const [end] = await Promise.allSettled([cancel(b.client, id)]);
        const ended = await endOf(end);
        // Towards the moment at which either may win.
        delayMs = ended === 'CANCELED' ? delayMs * 1.4 + 0.5 : delayMs * 0.7;
        ends.set(ended, (ends.get(ended) ?? 0) + 1);

        const told = await watcher.finished();
        const stored = await log(id);
        expectEnded(stored, ended);
        expectFollowed(told, stored);
        // A cancel that comes before the follow-up refuses it.
        const sent = await turn.ended;
        if (sent.how === 'failed') {
          expect(await errorName(Promise.reject(sent.error as Error))).toBe('UnsupportedOperationError');
          expect(userMessages(stored, 'stream 3 1')).toBe(0);
        } else expectFollowed(turn.responses, stored);
      }
      expect([...ends.keys()].sort()).toEqual(['CANCELED', 'COMPLETED']);
    });

    it('O42 a task that waits, asked at A, is canceled at B: a follow-up at A is refused', async () => {
      const { a, b, c } = cluster;
      const { id } = await send(a.client, 'ask go on?');
      const watcher = Recording.subscribe(c.client, id);
      await watcher.task();
      expect(stateName(await cancel(b.client, id))).toBe('CANCELED');

      expect(await errorName(send(a.client, 'yes', { taskId: id }))).toBe('UnsupportedOperationError');
      const stored = await log(id);
      expectEnded(stored, 'CANCELED');
      expect(userMessages(stored, 'yes')).toBe(0);
      expectFollowed(await watcher.finished(), stored);
    });

    it.each(['work 60', 'ask go on?', 'deaf 1.5'])(
      'O44 %s: three cancels at once all get CANCELED, one event',
      async (text) => {
        const { a, all } = cluster;
        for (let round = 0; round < (text.startsWith('deaf') ? 1 : 8); round += 1) {
          const { id } = await Recording.send(a.client, text).task();
          if (text.startsWith('ask')) await untilWaiting(id);
          const tasks = await Promise.all(all.map(({ client }) => cancel(client, id)));
          expect(tasks.map(stateName)).toEqual(['CANCELED', 'CANCELED', 'CANCELED']);
          expectEnded(await log(id), 'CANCELED');
        }
      },
    );

    it('O54 cancel while the holder commits without pause: CANCELED within the bound', async () => {
      const { a, b, c } = cluster;
      for (const canceler of [b, a]) {
        // Subscribed before it grows: the SDK's client takes no snapshot of more than 4 MiB.
        const { id } = await send(a.client, 'ask ready?');
        const watcher = Recording.subscribe(c.client, id);
        await watcher.task();
        const sender = Recording.send(a.client, 'stream 1000000 0', { taskId: id });
        await watcher.waitFor((response, at) => at > 300 && summaryOf(response).startsWith('artifact'));
        // Nobody reads what goes on at full speed: that would measure the reader. O40 follows a cancel to its end.
        await Promise.all([watcher.disconnect(), sender.disconnect()]);

        const since = performance.now();
        expect(stateName(await cancel(canceler.client, id))).toBe('CANCELED');
        expect(performance.now() - since).toBeLessThan(TIMES.cancel + TIMES.poll + LOAD_MS);
        const stored = await log(id);
        expectEnded(stored, 'CANCELED');
      }
    });

    async function untilWaiting(taskId: string): Promise<void> {
      const watcher = Recording.subscribe(cluster.b.client, taskId);
      await watcher.waitFor(
        ({ payload }) => payload?.value !== undefined && stateOf(payload.value) === 'INPUT_REQUIRED',
      );
      await watcher.disconnect();
    }
  });

const stateOf = (value: object): string | undefined => ('status' in value ? stateName(value as Task) : undefined);

/** How a task ended that was canceled, perhaps too late: in the state that the canceler was told. */
async function endOf(outcome: PromiseSettledResult<Task>): Promise<string> {
  if (outcome.status === 'fulfilled') return stateName(outcome.value);
  const error = await errorOf(Promise.reject(outcome.reason as Error));
  expect(error.name).toBe('TaskNotCancelableError');
  return 'COMPLETED';
}
