import type { Client } from '@a2a-js/sdk/client';
import { cancel, errorName, getTask, send } from '../../../tools/harness/client.js';
import { Recording, stateName, summaryOf } from '../../helpers/recording.js';
import { blockedBackend, lockLease, lockTask, STATEMENTS } from '../../helpers/sessions.js';
import { expectEnded, expectFollowed, expectSound, readLog, userMessages } from '../../helpers/task-log.js';
import { eventually } from '../../../tools/harness/wait.js';
import { cluster } from './cluster.js';

/** Who may run a turn, and what becomes of it when its sender hangs up. */
export const turns = (): void =>
  describe('Turns across replicas', () => {
    const log = (taskId: string) => readLog(cluster.database, taskId);

    async function expectCompleted(client: Client, taskId: string): Promise<void> {
      await eventually(async () => stateName(await getTask(client, taskId)) === 'COMPLETED');
      expectEnded(await log(taskId), 'COMPLETED');
    }

    it('O11 a streaming sender disconnects mid-turn: the turn runs on and is stored', async () => {
      const { a, b, c } = cluster;
      const { id } = await send(b.client, 'ask go on?');
      const watcher = Recording.subscribe(b.client, id);
      await watcher.task();
      const sender = Recording.send(a.client, 'stream 60 20', { taskId: id });
      await sender.waitFor((_, at) => at === 5);
      await sender.disconnect();

      expectFollowed(await watcher.finished(), await log(id));
      await expectCompleted(c.client, id);
      expect(sender.responses.length).toBeLessThan(60);
    });

    it('O11 a blocking sender disconnects mid-turn: the turn runs on and is stored', async () => {
      const { a, b, c } = cluster;
      const { id } = await send(b.client, 'ask go on?');
      const connection = new AbortController();
      const answer = send(a.client, 'stream 60 20', { taskId: id, signal: connection.signal });
      answer.catch(() => undefined);
      await eventually(() => cluster.lease(id));
      connection.abort();

      await expect(answer).rejects.toThrow(/abort/i);
      await expectCompleted(c.client, id);
    });

    it.each(['streaming', 'blocking'])('O11 a %s sender disconnects during the terminal save', async (kind) => {
      const { a, b, c } = cluster;
      const { id } = await send(b.client, 'ask go on?');
      const watcher = Recording.subscribe(c.client, id);
      await watcher.task();
      const connection = new AbortController();
      const text = 'stream 1 1000';
      const recording = kind === 'streaming' ? Recording.send(a.client, text, { taskId: id }) : undefined;
      const answer =
        recording ?? send(a.client, text, { taskId: id, signal: connection.signal }).catch(() => undefined);
      await watcher.waitFor((response) => summaryOf(response).startsWith('artifact'));
      const lock = await lockTask(cluster.database, id);
      try {
        await blockedBackend(cluster.database, STATEMENTS.append, 'A');
        connection.abort();
        await recording?.disconnect();
        await answer;
      } finally {
        await lock.release();
      }

      await watcher.finished();
      await expectCompleted(b.client, id);
      expectFollowed(watcher.responses, await log(id));
    });

    it('O16 two messages for one waiting task at two replicas at once: one turn, the other refused, no trace', async () => {
      const { a, b, c, all } = cluster;
      const winners = new Set<string>();
      for (let round = 0; round < 30; round += 1) {
        const { id } = await send(all[round % 3]!.client, 'ask go on?');
        const texts = [`say ${round} at A\nwork 60`, `say ${round} at B\nwork 60`] as const;
        const configuration = { returnImmediately: true };
        const [atA, atB] = await Promise.allSettled([
          send(a.client, texts[0], { taskId: id, configuration }),
          send(b.client, texts[1], { taskId: id, configuration }),
        ]);
        expect([atA.status, atB.status].sort()).toEqual(['fulfilled', 'rejected']);
        const [winner, loser] = atA.status === 'fulfilled' ? ([0, 1] as const) : ([1, 0] as const);
        const refusal = Promise.reject(
          (atA.status === 'rejected' ? atA : (atB as PromiseRejectedResult)).reason as Error,
        );
        expect(await errorName(refusal)).toBe('UnsupportedOperationError');
        winners.add('AB'.charAt(winner));
        expect(stateName(await cancel(c.client, id))).toBe('CANCELED');

        const stored = await log(id);
        expectEnded(stored, 'CANCELED');
        expect([userMessages(stored, texts[winner]), userMessages(stored, texts[loser])]).toEqual([1, 0]);
        const said = stored.entries.filter(
          ({ kind, text }) => kind === 'statusUpdate' && text?.startsWith(`${round} at`),
        );
        expect(said.map(({ text }) => text)).toEqual([texts[winner].slice(4, -8)]);
      }
      expect(winners.size).toBeGreaterThan(0);
    });

    it('O16 O50 an `ask` answered by an `ask` at whichever replica is faster: every accepted message once', async () => {
      const { all } = cluster;
      const { id } = await send(cluster.a.client, 'ask 0?');
      const accepted: string[] = [];
      const refused: string[] = [];
      for (let round = 0; round < 10; round += 1) {
        const texts = all.map(({ name }) => `ask ${round} at ${name}?`);
        const answers = await Promise.allSettled(all.map(({ client }, at) => send(client, texts[at]!, { taskId: id })));
        answers.forEach(({ status }, at) => (status === 'fulfilled' ? accepted : refused).push(texts[at]!));
      }
      const stored = await log(id);
      expectSound(stored);
      expect(stored).toMatchObject({ state: 'INPUT_REQUIRED', leases: 0 });
      expect(accepted.length).toBeGreaterThanOrEqual(10);
      for (const text of accepted) expect(userMessages(stored, text)).toBe(1);
      for (const text of refused) expect(userMessages(stored, text)).toBe(0);
      await cancel(cluster.a.client, id);
    });

    it('O19 a follow-up between the visible AUTH_REQUIRED and the release waits and is accepted', async () => {
      const { a, b } = cluster;
      for (let round = 0; round < 15; round += 1) {
        const { id } = await send(b.client, 'ask go on?');
        const watcher = Recording.subscribe(b.client, id);
        await watcher.task();
        const turn = Recording.send(a.client, 'auth', { taskId: id });
        await watcher.waitFor((response) => summaryOf(response) === 'status AUTH_REQUIRED');
        expect(stateName(await send(b.client, 'say it is me', { taskId: id }))).toBe('COMPLETED');
        const stored = await log(id);
        expectEnded(stored, 'COMPLETED');
        expectFollowed(await watcher.finished(), stored);
        expectFollowed(await turn.finished(), stored);
      }
    });

    it('O19 the release is held up for a while: the follow-up waits for it, no longer than a heartbeat', async () => {
      const { a, b } = cluster;
      const { id } = await send(b.client, 'ask go on?');
      const turn = Recording.send(a.client, 'stream 1 1000\nauth', { taskId: id });
      await turn.waitFor((response) => summaryOf(response).startsWith('artifact'));
      const lock = await lockLease(cluster.database, id);
      await turn.waitFor((response) => summaryOf(response) === 'status AUTH_REQUIRED');
      const followUp = send(b.client, 'say it is me', { taskId: id });
      try {
        await blockedBackend(cluster.database, STATEMENTS.release, 'A');
      } finally {
        await lock.release();
      }
      expect(stateName(await followUp)).toBe('COMPLETED');
      expectEnded(await log(id), 'COMPLETED');
      await turn.finished();
    });
  });
