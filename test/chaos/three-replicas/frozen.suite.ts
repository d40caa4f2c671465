import { getTask, send } from '../../../tools/harness/client.js';
import { LOAD_MS, type Member, TIMES } from '../../helpers/cluster.js';
import { Recording, stateName } from '../../helpers/recording.js';
import { expectEnded, expectFollowed, readLog, recoveryOf, type TaskLog } from '../../helpers/task-log.js';
import { eventually } from '../../../tools/harness/wait.js';
import { cluster } from './cluster.js';

/** What a replica knows of expiry is compared with its own last heartbeat, so no sooner than this. */
const CLOCK_MS = 5;

/** A replica stands still for longer than its lease holds, or only nearly so, and comes back. */
export const frozenReplicas = (): void =>
  describe('Replicas that stand still', () => {
    const log = (taskId: string) => readLog(cluster.database, taskId);

    /** Another replica wrote FAILED, neither before the lease had run out nor long after. */
    function expectRecovered(stored: TaskLog, holder: Member): void {
      expectEnded(stored, 'FAILED');
      const { lastHolder, lastHeartbeat, attempts, at } = recoveryOf(stored);
      expect(lastHolder).toContain(`:${holder.process.pid}:`);
      expect(attempts).toBe(1);
      const silence = at.getTime() - lastHeartbeat.getTime();
      expect(silence).toBeGreaterThanOrEqual(TIMES.ttl - CLOCK_MS);
      expect(silence).toBeLessThan(TIMES.ttl + TIMES.sweep + LOAD_MS);
    }

    /** It has noticed that its turn is not its own any more, and nothing that it said since then was accepted. */
    async function expectFenced(member: Member, stored: TaskLog, taskId: string): Promise<void> {
      await member.process.waitForLine(new RegExp(`^task ${taskId}: signal aborted: A2A_LEASE_LOST$`));
      await member.process.waitForLine(new RegExp(`^task ${taskId}: late event refused: A2A_LEASE_LOST$`));
      expect(await log(taskId)).toEqual(stored);
      expect(stateName(await getTask(member.client, taskId))).toBe('FAILED');
      expect(stateName(await send(member.client, 'say I am back'))).toBe('COMPLETED');
    }

    it('O20 a turn blocks the event loop past the TTL: FAILED elsewhere, nothing it says afterwards is accepted', async () => {
      const { a, b, c } = cluster;
      const { id } = await send(b.client, 'ask go on?');
      const watchers = [b, c].map(({ client }) => Recording.subscribe(client, id));
      await Promise.all(watchers.map((recording) => recording.task()));
      const answer = send(a.client, 'block 4\nsay late\nstream 3 500', { taskId: id });
      for (const recording of watchers) await recording.finished(TIMES.ttl + TIMES.sweep + LOAD_MS);

      const stored = await log(id);
      expectRecovered(stored, a);
      for (const { responses } of watchers) expectFollowed(responses, stored);
      await expectFenced(a, stored, id);
      expect(stateName(await answer)).toBe('FAILED');
      expect(stored.entries.map(({ text }) => text)).not.toContain('late');
    });

    it('O33 SIGSTOP past the TTL, then SIGCONT: aborted, late events dropped, FAILED stands', async () => {
      const { a, b, c } = cluster;
      const sender = Recording.send(a.client, 'work 60');
      const { id } = await sender.task();
      const watchers = [b, c].map(({ client }) => Recording.subscribe(client, id));
      await Promise.all(watchers.map((recording) => recording.task()));
      await a.process.freeze();
      try {
        for (const recording of watchers) await recording.finished(TIMES.ttl + TIMES.sweep + LOAD_MS);
      } finally {
        await a.process.thaw();
      }
      const stored = await log(id);
      expectRecovered(stored, a);
      await expectFenced(a, stored, id);
      for (const recording of [sender, ...watchers]) expectFollowed(await recording.finished(), stored);
    });

    it('O33 a pause shorter than the TTL, a heartbeat missed, stops nothing', async () => {
      const { a, b } = cluster;
      const sender = Recording.send(a.client, 'stream 100 20');
      const { id } = await sender.task();
      const watcher = Recording.subscribe(b.client, id);
      await watcher.task();
      const before = (await cluster.lease(id))!;
      await a.process.freeze();
      try {
        await eventually(async () => (await ageOf(id)) > TIMES.heartbeat * 1.5);
      } finally {
        await a.process.thaw();
      }
      await eventually(async () => ((await cluster.lease(id))?.renewedAt ?? 0) > before.renewedAt);
      expect((await cluster.lease(id))!.generation).toBe(before.generation);
      await sender.finished();
      const stored = await log(id);
      expectEnded(stored, 'COMPLETED');
      for (const recording of [sender, watcher]) expectFollowed(await recording.finished(), stored);
    });

    /** How long ago the lease was renewed, in ms by the database's clock. */
    async function ageOf(taskId: string): Promise<number> {
      const [row] = await cluster.database.query<{ age: number }>(
        `SELECT extract(epoch FROM clock_timestamp() - greatest(l.renewed_at, r.renewed_at))::float8 * 1000 AS age
         FROM a2a_task_leases AS l JOIN a2a_tasks USING (task_no) LEFT JOIN a2a_replicas AS r USING (holder)
        WHERE task_id = $1`,
        [taskId],
      );
      return row?.age ?? 0;
    }
  });
