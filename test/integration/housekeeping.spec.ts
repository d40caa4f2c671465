import { optionsWith } from '../helpers/options.js';
import { randomUUID } from 'node:crypto';
import { InterruptedTaskTimeout } from '../../libs/a2a-cluster/src/recovery/interrupted-task.timeout.js';
import { type Replica, useCluster } from './cluster.fixture.js';
import {
  artifact,
  artifactsOf,
  AUTH_REQUIRED,
  COMPLETED,
  INPUT_REQUIRED,
  message,
  status,
  textOf,
} from './events.fixture.js';
import { interceptable, Pause } from './faults.fixture.js';
import { leaseRow, logOf, taskRow } from './rows.fixture.js';

const HOUR_MS = 3_600_000;

describe('Housekeeping', () => {
  const cluster = useCluster();

  const age = (table: string, column: string): Promise<unknown> =>
    cluster.db.query(`UPDATE ${table} SET ${column} = clock_timestamp() - interval '2 hours'`);

  const versionsLeft = async (taskNo: number): Promise<number[]> => {
    const rows = await cluster.db.query<{ version: number }>(
      'SELECT version FROM a2a_task_events WHERE task_no = $1 ORDER BY version',
      [taskNo],
    );
    return rows.map(({ version }) => version);
  };

  describe('retention of events', () => {
    it('I5 prunes what the snapshot contains and is old enough, and nothing else', async () => {
      const a = await cluster.replica();
      const { scope, loop, turn, taskNo } = await a.waiting();
      const next = await a.followUp(scope, message('answer'));
      next.loop!.add(artifact(scope, 'a1'));
      await next.flush();
      expect(await a.tasks.pruneEvents(HOUR_MS, 100)).toBe(0); // all are young
      await age('a2a_task_events', 'created_at');
      expect(await a.tasks.pruneEvents(HOUR_MS, 100)).toBe(2);
      expect(await versionsLeft(taskNo)).toEqual([3, 4]); // the tail, which no snapshot contains
      expect(Object.keys(artifactsOf((await a.tasks.find(scope))?.task))).toEqual(['a1']);
      next.loop!.add(status(scope, COMPLETED));
      await next.flush();
      expect(await a.tasks.pruneEvents(HOUR_MS, 100)).toBe(2);
      expect(await versionsLeft(taskNo)).toEqual([5]); // young
      expect([loop.isSealed, turn.signal.aborted]).toEqual([true, false]);
    });

    it('O48 keeps what a push receiver still needs, but not for one that was given up', async () => {
      const a = await cluster.replica();
      const { taskNo } = await a.waiting();
      await cluster.db.query(
        `INSERT INTO a2a_push_configs (task_no, config_id, config, wire_version, delivered_version, failed)
         VALUES ($1, 'behind', '{}', '1.0', 1, NULL), ($1, 'given up', '{}', '1.0', 0, 'gone')`,
        [taskNo],
      );
      await age('a2a_task_events', 'created_at');
      expect(await a.tasks.pruneEvents(HOUR_MS, 100)).toBe(1);
      expect(await versionsLeft(taskNo)).toEqual([2]);
      await cluster.db.query('UPDATE a2a_push_configs SET delivered_version = 2');
      expect(await a.tasks.pruneEvents(HOUR_MS, 100)).toBe(1);
    });

    it('I5 prunes in bounded batches, each event once, however many replicas do it at once', async () => {
      const replicas = await cluster.replicas(4);
      for (let task = 0; task < 10; task += 1) await replicas[0]!.waiting();
      await age('a2a_task_events', 'created_at');
      const pruned = await Promise.all(replicas.map(({ tasks }) => tasks.pruneEvents(HOUR_MS, 4)));
      expect(Math.max(...pruned)).toBeLessThanOrEqual(4);
      let total = pruned.reduce((sum, rows) => sum + rows, 0);
      for (let rows = 1; rows > 0; total += rows) rows = await replicas[0]!.tasks.pruneEvents(HOUR_MS, 4);
      expect(total).toBe(20);
    });

    it('I5 prunes the events of tasks that were deleted', async () => {
      const a = await cluster.replica();
      const { taskNo } = await a.working();
      await cluster.db.query('DELETE FROM a2a_tasks WHERE task_no = $1', [taskNo]);
      await age('a2a_task_events', 'created_at');
      expect(await a.tasks.pruneEvents(HOUR_MS, 100)).toBe(1);
    });

    it('I7 prunes receipts that are out of their window', async () => {
      const a = await cluster.replica();
      await cluster.db.query(
        `INSERT INTO a2a_message_receipts (tenant, owner, agent, message_id, fingerprint, task_no, created_at)
         SELECT '', 'o', 'default', 'm' || n, 'h', n, clock_timestamp() - n * interval '1 hour'
           FROM generate_series(0, 5) AS n`,
      );
      expect(await a.tasks.pruneReceipts(2.5 * HOUR_MS, 2)).toBe(2);
      expect(await a.tasks.pruneReceipts(2.5 * HOUR_MS, 2)).toBe(1);
      expect(await cluster.db.query('SELECT FROM a2a_message_receipts')).toHaveLength(3);
    });
  });

  describe('retention of tasks and effects', () => {
    const count = async (table: string): Promise<number> =>
      Number((await cluster.db.query<{ n: string }>(`SELECT count(*) AS n FROM ${table}`))[0]!.n);

    const ended = async (a: Replica): Promise<number> => {
      const { scope, loop, turn, taskNo } = await a.working();
      loop.add(status(scope, COMPLETED));
      await turn.flush();
      return taskNo;
    };

    it('prunes tasks that ended long ago with all that they have, their events in batches of their own', async () => {
      const a = await cluster.replica();
      const [old, waiting] = [await ended(a), await a.waiting()];
      await cluster.db.query(
        `INSERT INTO a2a_push_configs (task_no, config_id, config, wire_version, delivered_version, failed)
         VALUES ($1, 'told', '{}', '1.0', 2, NULL), ($1, 'given up', '{}', '1.0', 0, 'gone')`,
        [old],
      );
      await cluster.db.query(
        `INSERT INTO a2a_task_effects (task_no, turn_id, key, state, replay, attempt, generation)
         VALUES ($1, gen_random_uuid(), 'k', 'succeeded', 'never', 1, 1)`,
        [old],
      );
      expect(await a.tasks.pruneTasks(HOUR_MS, 10)).toBe(0); // young
      await age('a2a_tasks', 'state_since');
      const young = await ended(a);
      expect(await a.tasks.pruneTasks(HOUR_MS, 10)).toBe(1);
      const left = await cluster.db.query<{ no: string }>('SELECT task_no AS no FROM a2a_tasks ORDER BY task_no');
      expect(left.map(({ no }) => Number(no))).toEqual([waiting.taskNo, young]);
      expect([await count('a2a_push_configs'), await count('a2a_task_effects')]).toEqual([0, 0]);
      expect(await versionsLeft(old)).toEqual([1, 2]);
      await age('a2a_task_events', 'created_at');
      await a.tasks.pruneEvents(HOUR_MS, 100);
      expect(await versionsLeft(old)).toEqual([]);
    });

    it('keeps a task whose end a receiver has not been told, one under a lease, and another agent’s', async () => {
      const a = await cluster.replica();
      const [behind, leased, foreign] = [await ended(a), await ended(a), await ended(a)];
      await cluster.db.query(
        `INSERT INTO a2a_push_configs (task_no, config_id, config, wire_version, delivered_version)
         VALUES ($1, 'behind', '{}', '1.0', 1)`,
        [behind],
      );
      await cluster.db.query(
        `INSERT INTO a2a_task_leases
                (task_no, agent, kind, turn_id, admitted_version, holder, attempt, expires_at, context)
         VALUES ($1, 'default', 'message', gen_random_uuid(), 0, 'h', 1, clock_timestamp(), '{}')`,
        [leased],
      );
      await cluster.db.query(`UPDATE a2a_tasks SET agent = 'other' WHERE task_no = $1`, [foreign]);
      await age('a2a_tasks', 'state_since');
      expect(await a.tasks.pruneTasks(HOUR_MS, 10)).toBe(0);
      await cluster.db.query('UPDATE a2a_push_configs SET delivered_version = 2');
      await cluster.db.query('DELETE FROM a2a_task_leases');
      expect(await a.tasks.pruneTasks(HOUR_MS, 1)).toBe(1);
      expect(await a.tasks.pruneTasks(HOUR_MS, 10)).toBe(1);
      expect(await count('a2a_tasks')).toBe(1);
    });

    it('I7 forgets effects of turns that are over, never of one that may still ask for them', async () => {
      const a = await cluster.replica();
      const { taskNo } = await a.working();
      const [{ turn: turnId } = { turn: '' }] = await cluster.db.query<{ turn: string }>(
        'SELECT turn_id AS turn FROM a2a_task_leases WHERE task_no = $1',
        [taskNo],
      );
      const record = (turn: string, key: string): Promise<unknown> =>
        cluster.db.query(
          `INSERT INTO a2a_task_effects (task_no, turn_id, key, state, replay, attempt, generation)
           VALUES ($1, $2, $3, 'succeeded', 'never', 1, 1)`,
          [taskNo, turn, key],
        );
      await record(turnId, 'running');
      for (const key of ['1', '2', '3']) await record(randomUUID(), key);
      expect(await a.effects.prune(HOUR_MS, 10)).toBe(0); // young
      await age('a2a_task_effects', 'dispatched_at');
      expect([await a.effects.prune(HOUR_MS, 2), await a.effects.prune(HOUR_MS, 2)]).toEqual([2, 1]);
      const left = await cluster.db.query('SELECT key FROM a2a_task_effects');
      expect(left).toEqual([{ key: 'running' }]);
    });
  });

  describe('timeout of tasks that wait', () => {
    const timeoutOf = ({ tasks, stream }: Replica): InterruptedTaskTimeout =>
      new InterruptedTaskTimeout(tasks, stream, optionsWith({ interruptedTaskTimeoutMs: HOUR_MS }));

    it('I6 a task that waits too long is FAILED, and its followers hear it; one that waits since just now is not', async () => {
      const [a, b] = [await cluster.replica(), await cluster.replica()];
      const overdue = await a.waiting();
      await age('a2a_tasks', 'state_since');
      const young = await a.waiting();
      const following = (async () => {
        for await (const { event } of b.stream.follow(overdue.taskNo, 2, new AbortController().signal)) return event;
        return undefined;
      })();
      expect(await timeoutOf(b).runOnce()).toBe(1);
      expect((await following)?.kind).toBe('statusUpdate');
      expect(await logOf(cluster.db, overdue.taskNo)).toEqual([
        'task WORKING',
        'status INPUT_REQUIRED',
        'status FAILED',
      ]);
      expect(textOf((await b.tasks.find(overdue.scope))!.task.status!.message!)).toBe(
        'The client did not answer within 3600000 ms.',
      );
      expect(await taskRow(cluster.db, young.taskNo)).toMatchObject({ state: 'INPUT_REQUIRED', version: 2 });
      expect(await timeoutOf(b).runOnce()).toBe(0);
    });

    it('I2 a task under a lease does not wait: neither with its turn still running nor with one just admitted', async () => {
      const a = await cluster.replica();
      const { scope, loop, turn, taskNo } = await a.working();
      loop.add(status(scope, AUTH_REQUIRED));
      await turn.flush();
      const admitted = await a.waiting();
      await a.followUp(admitted.scope, message('in time'));
      await age('a2a_tasks', 'state_since');
      expect(await timeoutOf(a).runOnce()).toBe(0);
      expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'AUTH_REQUIRED' });
      expect(await leaseRow(cluster.db, admitted.taskNo)).toBeDefined();
    });

    it.each([
      ['a follow-up was admitted', false],
      ['a follow-up was admitted and has asked again', true],
    ])('I4 %s between the look and the decision: the task is left alone', async (_name, asked) => {
      const faults = interceptable();
      const [a, b] = [await cluster.replica(), await cluster.replica({ database: faults.database })];
      const { scope, taskNo } = await a.waiting();
      await age('a2a_tasks', 'state_since');
      const pause = new Pause(/state_since <= \(SELECT clock_timestamp\(\)\)/, 'after');
      faults.get().intercept = pause.intercept;
      const sweeping = timeoutOf(b).runOnce();
      await pause.reached;
      const turn = await a.followUp(scope, message('in time'));
      if (asked) {
        turn.loop!.add(status(scope, INPUT_REQUIRED));
        await turn.flush();
      }
      pause.resume();
      expect(await sweeping).toBe(1);
      expect((await logOf(cluster.db, taskNo)).at(-1)).toBe(asked ? 'status INPUT_REQUIRED' : 'userMessage in time');
    });

    it('I4 many replicas time out the same tasks at once: one FAILED each', async () => {
      const replicas = await cluster.replicas(4);
      const waiting = await Promise.all(Array.from({ length: 8 }, () => replicas[0]!.waiting()));
      await age('a2a_tasks', 'state_since');
      await Promise.all(replicas.map((replica) => timeoutOf(replica).runOnce()));
      for (const { taskNo } of waiting) {
        expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status INPUT_REQUIRED', 'status FAILED']);
      }
    });
  });
});
