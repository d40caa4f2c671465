import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { cancel, errorName, getTask, send, subscribe } from '../../../tools/harness/client.js';
import { type Member } from '../../helpers/cluster.js';
import { Recording, summaryOf } from '../../helpers/recording.js';
import { expectEnded, expectFollowed, readLog, userMessages } from '../../helpers/task-log.js';
import { cluster } from './cluster.js';

/** Clients at every replica follow tasks that run on any of them. */
export const streams = (): void =>
  describe('Streams across replicas', () => {
    const log = (taskId: string) => readLog(cluster.database, taskId);
    const followed = (members: Member[], taskId: string): Recording[] =>
      members.map(({ client }) => Recording.subscribe(client, taskId));

    it('O7 a subscriber at another replica gets the snapshot, then each event once and in order, to the end', async () => {
      const { a, b, c } = cluster;
      const sender = Recording.send(a.client, 'stream 100 10\nask go on?');
      const { id } = await sender.task();
      expect((await cluster.lease(id))?.pid).toBe(a.process.pid);

      const early = followed([a, b, c], id);
      await sender.waitFor((_, at) => at === 50);
      const late = followed([a, b, c], id);
      // On a busy machine one may come only when the turn is over; none misses the end of the task.
      await Promise.all([...early, ...late].map((recording) => recording.task()));
      await sender.finished();
      const { version } = await log(id);
      await send(a.client, 'stream 20 10', { taskId: id });

      const stored = await log(id);
      expectEnded(stored, 'COMPLETED');
      expectFollowed(sender.responses, stored, version);
      for (const recording of [...early, ...late]) expectFollowed(await recording.finished(), stored);
    });

    it('O8 an end between the snapshot and the start of the tail is delivered, wherever it is followed', async () => {
      const { a, b, c, all } = cluster;
      let opened = 0;
      for (let round = 0; round < 30; round += 1) {
        const { id } = await send(b.client, 'ask go on?');
        // The follow-up takes a few ms from its admission to its end, and subscriptions come from before to after it.
        const turn = send([a, b, c][round % 3]!.client, 'stream 3 0', { taskId: id });
        const watchers = [...all, ...all].map(async ({ client }) => {
          await pause(randomInt(20));
          return Recording.subscribe(client, id);
        });
        await turn;
        const stored = await log(id);
        expectEnded(stored, 'COMPLETED');
        for (const recording of await Promise.all(watchers)) {
          const end = await recording.ended;
          if (end.how === 'failed') {
            expect(await errorName(Promise.reject(end.error as Error))).toBe('UnsupportedOperationError');
            expect(recording.responses).toEqual([]);
          } else {
            opened += 1;
            expectFollowed(recording.responses, stored);
          }
        }
      }
      expect(opened).toBeGreaterThan(20);
    });

    it('O9 O10 a subscription stays open at INPUT_REQUIRED and follows the next turns, wherever they run', async () => {
      const { a, b, c, all } = cluster;
      const { id } = await send(a.client, 'stream 5 2\nask first?');
      const fromFirst = followed(all, id);
      await Promise.all(fromFirst.map((recording) => recording.task()));

      const second = Recording.send(b.client, 'stream 20 2\nask second?', { taskId: id });
      await second.finished();
      expect(summaryOf(second.responses.at(-1)!)).toBe('status INPUT_REQUIRED');
      const { version } = await log(id);
      const fromSecond = followed(all, id);
      await Promise.all(fromSecond.map((recording) => recording.task()));

      const third = Recording.send(c.client, 'auth', { taskId: id });
      await third.waitFor((response) => summaryOf(response) === 'status AUTH_REQUIRED');
      const fourth = Recording.send(a.client, 'stream 5 2', { taskId: id });
      await fourth.finished();

      const stored = await log(id);
      expectEnded(stored, 'COMPLETED');
      for (const recording of [...fromFirst, ...fromSecond]) expectFollowed(await recording.finished(), stored);
      // The senders of the turns see their part of the same sequence.
      expectFollowed(second.responses, stored, version);
      expectFollowed(await third.finished(), stored);
      expectFollowed(fourth.responses, stored);
    });

    it('O17 turns at A, B, A: the third builds on what the second left, not on what A remembers', async () => {
      const { a, b } = cluster;
      const { id } = await send(a.client, 'stream 3 1\nask one?');
      await send(b.client, 'stream 4 1\nask two?', { taskId: id });
      const task = await send(a.client, 'say done', { taskId: id });

      const stored = await log(id);
      expectEnded(stored, 'COMPLETED');
      expect(task.artifacts.map(({ parts }) => parts.length)).toEqual([3, 4]);
      for (const text of ['stream 3 1\nask one?', 'stream 4 1\nask two?', 'say done']) {
        expect(userMessages(stored, text)).toBe(1);
      }
    });

    it('O15 what cannot be followed is refused before any stream opens', async () => {
      const { a, b } = cluster;
      const ended = await send(a.client, 'say bye');
      const alices = await send(await a.as('alice'), 'ask alice?');
      for (const member of [a, b]) {
        expect(await errorName(subscribe(member.client, ended.id))).toBe('UnsupportedOperationError');
        expect(await errorName(subscribe(member.client, 'no-such-task'))).toBe('TaskNotFoundError');
        expect(await errorName(subscribe(await member.as('bob'), alices.id))).toBe('TaskNotFoundError');
        expect(await errorName(subscribe(member.client, alices.id))).toBe('TaskNotFoundError');
      }
      for (const url of [`${a.url}/a2a/jsonrpc`, `${b.url}/a2a/rest/tasks/${ended.id}:subscribe`]) {
        const answer = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SubscribeToTask', params: { id: ended.id } }),
        });
        expect(answer.headers.get('content-type')).toMatch(/json/);
        expect(await answer.text()).not.toMatch(/^(data|event):/m);
      }
      await cancel(await b.as('alice'), alices.id);
    });

    it('O18 a follow-up while A works is refused and leaves no trace; a later subscriber follows the log', async () => {
      const { a, b, c, all } = cluster;
      const sender = Recording.send(a.client, 'work 60');
      const { id } = await sender.task();
      for (const { client } of all) {
        expect(await errorName(send(client, 'me too', { taskId: id }))).toBe('UnsupportedOperationError');
      }
      expect((await getTask(b.client, id)).history).toHaveLength(1);
      const later = followed([b, c], id);
      await Promise.all(later.map((recording) => recording.task()));
      await cancel(c.client, id);

      const stored = await log(id);
      expectEnded(stored, 'CANCELED');
      expect(userMessages(stored, 'me too')).toBe(0);
      for (const recording of [sender, ...later]) expectFollowed(await recording.finished(), stored);
    });
  });
