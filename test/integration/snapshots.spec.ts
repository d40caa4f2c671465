import { Task } from '@a2a-js/sdk';
import fc from 'fast-check';
import { type TaskChange, turn as anyTurn } from '../helpers/task-arbitraries.js';
import { EventLogGapError } from '../../libs/a2a-cluster/src/errors/event-log-gap.error.js';
import { applyEvent } from '../../libs/a2a-cluster/src/tasks/apply-event.js';
import type { TaskEvent } from '../../libs/a2a-cluster/src/tasks/task-event.js';
import type { StoredLength } from '../../libs/a2a-cluster/src/tasks/snapshot-pace.js';
import { decodeEvent } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import { newScope, runningTurn, useCluster } from './cluster.fixture.js';
import { expireLeases } from './rows.fixture.js';
import { artifact, artifactsOf, COMPLETED, message, status } from './events.fixture.js';

describe('Snapshots', () => {
  const cluster = useCluster();

  beforeAll(async () => {
    await cluster.db.query(`
      CREATE TABLE snapshot_writes (task_no bigint, version integer, bytes integer);
      CREATE FUNCTION note_snapshot() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO snapshot_writes VALUES (NEW.task_no, NEW.snapshot_version, length(NEW.snapshot));
        RETURN NULL;
      END $$;
      CREATE TRIGGER note_snapshot AFTER UPDATE ON a2a_tasks FOR EACH ROW
        WHEN (OLD.snapshot_version <> NEW.snapshot_version) EXECUTE FUNCTION note_snapshot()`);
  });

  const writesOf = (taskNo: number): Promise<{ version: number; bytes: number }[]> =>
    cluster.db.query('SELECT version, bytes FROM snapshot_writes WHERE task_no = $1 ORDER BY version', [taskNo]);

  const wire = (task: Task | undefined): unknown => (task ? JSON.parse(JSON.stringify(Task.toJSON(task))) : undefined);

  /** The log up to a version, folded anew: the truth that a load is measured by. */
  async function folded(taskNo: number, version: number): Promise<Task | undefined> {
    const rows = await cluster.db.query<{ event: string }>(
      'SELECT event FROM a2a_task_events WHERE task_no = $1 AND version <= $2 ORDER BY version',
      [taskNo, version],
    );
    return rows.map(({ event }) => decodeEvent(event)).reduce<Task | undefined>(applyEvent, undefined);
  }

  it('5,000 chunks: a handful of snapshots, each for a log that has outgrown the one before, and O(n) bytes', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    const chunk = 'x'.repeat(100);
    for (let at = 0; at < 5_000; at += 1) {
      loop.add(artifact(scope, 'stream', chunk, at > 0));
      if (at % 5 === 0) await turn.flush();
    }
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    const writes = await writesOf(taskNo);
    const last = writes.at(-1)!;
    expect(last.version).toBe(5_002);
    expect(writes.length).toBeGreaterThanOrEqual(3);
    expect(writes.length).toBeLessThanOrEqual(15);
    const growth = writes.slice(1, -1).map(({ version }, at) => version / writes[at]!.version);
    expect(Math.min(...growth)).toBeGreaterThan(1.3);
    expect(writes.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThan(6 * last.bytes);
    const stored = await a.tasks.find(scope);
    expect(artifactsOf(stored?.task)).toEqual({ stream: chunk.repeat(5_000) });
  }, 60_000);

  it('a load after every commit is the fold of the log, with a snapshot or a tail or both', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    const kinds = new Set<string>();
    for (let at = 0; at < 60; at += 1) {
      loop.add(artifact(scope, `a${at % 3}`, `${at}:`.padEnd(7_000, '.'), at % 7 !== 0));
      if (at % 10 === 9) loop.add({ kind: 'task', task: { ...loop.current!, metadata: { at } } });
      await turn.flush();
      const stored = await a.tasks.find(scope);
      expect(wire(stored?.task)).toEqual(wire(await folded(taskNo, stored!.version)));
      const [row] = await cluster.db.query<{ tail: number }>(
        'SELECT version - snapshot_version AS tail FROM a2a_tasks WHERE task_no = $1',
        [taskNo],
      );
      kinds.add(row!.tail === 0 ? 'snapshot' : 'tail');
    }
    expect([...kinds].sort()).toEqual(['snapshot', 'tail']);
    loop.add(status(scope, COMPLETED));
    await turn.flush();
    expect(wire((await a.tasks.find(scope))?.task)).toEqual(wire(await folded(taskNo, loop.key!.version)));
  });

  it('whatever an executor publishes: a load at each version is the fold of the log, and what the turn holds', async () => {
    const a = await cluster.replica();
    await fc.assert(
      fc.asyncProperty(anyTurn, async ({ userMessage, events }) => {
        const scope = newScope();
        const turn = await a.startTurn(scope, userMessage);
        for (const published of events) {
          turn.loop!.add(ofScope(published, scope.taskId));
          await turn.flush();
          const stored = await a.tasks.find(scope);
          const truth = JSON.stringify(wire(await folded(stored!.taskNo, stored!.version)));
          expect(JSON.stringify(wire(stored?.task))).toBe(truth);
          expect(JSON.stringify(wire(turn.loop!.current))).toBe(truth);
        }
        turn.lease?.drop();
      }),
      { numRuns: 25 },
    );
  }, 60_000);

  async function lengthOf(taskNo: number): Promise<StoredLength> {
    const [row] = await cluster.db.query<StoredLength>(
      `SELECT length(snapshot) AS snapshot, (SELECT coalesce(sum(length(event)), 0)::integer FROM a2a_task_events AS e
         WHERE e.task_no = t.task_no AND e.version > t.snapshot_version) AS tail FROM a2a_tasks AS t WHERE task_no = $1`,
      [taskNo],
    );
    return row!;
  }

  /** Whether a load reads no more of the log than the snapshot is long, or 64 k characters. */
  async function isBounded(taskNo: number): Promise<boolean> {
    const { tail, snapshot } = await lengthOf(taskNo);
    return tail < Math.max(64 * 1024, snapshot);
  }

  it('come with messages too: many large ones, answered with nothing, leave no long log behind', async () => {
    const a = await cluster.replica();
    const { scope, taskNo } = await a.waiting();
    for (let turn = 0; turn < 8; turn += 1) {
      const admission = await a.admit(scope, message(`${turn}`.repeat(50_000)));
      if (admission.outcome !== 'admitted') throw new Error(admission.outcome);
      const { version, task, length } = admission.stored;
      const stored = await lengthOf(taskNo);
      expect(length?.snapshot).toBe(stored.snapshot);
      // What stands between events counts too.
      expect(Math.abs(length!.tail - stored.tail)).toBeLessThan(20);
      expect(wire(task)).toEqual(wire(await folded(taskNo, version)));
      expect(await a.tasks.find(scope)).toMatchObject({ version, task });
      expect(await isBounded(taskNo)).toBe(true);
      await a.leases.release(admission.generation!);
    }
    expect((await writesOf(taskNo)).length).toBeLessThan(8);
  });

  it('come in turns that only let go of their task, however many of them', async () => {
    const a = await cluster.replica();
    const { scope, taskNo } = await a.waiting();
    for (let at = 0; at < 8; at += 1) {
      const { loop, turn } = runningTurn(scope, await a.followUp(scope));
      loop.add(artifact(scope, `a${at}`, 'x'.repeat(40_000)));
      await turn.flush();
      expect(await isBounded(taskNo)).toBe(true);
      turn.lease?.drop();
      await a.leases.release(loop.key!.generation!);
    }
  });

  it('come in turns that take over from one another', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    loop.add(artifact(scope, 'a', 'x'.repeat(40_000)));
    await turn.flush();
    for (let next = 0; next < 6; next += 1) {
      await expireLeases(cluster.db, taskNo);
      const b = await cluster.replica();
      const [claimed] = await b.leases.claim({ holder: b.holderId, ttlMs: 60_000, limit: 1, scope });
      const resumed = await b.resumeTurn(b.claimOf(claimed!));
      resumed.loop!.add(artifact(scope, `b${next}`, 'x'.repeat(40_000)));
      await resumed.flush();
      expect(await isBounded(taskNo)).toBe(true);
    }
  });

  it('a tail with a gap is an error, not a guess', async () => {
    const a = await cluster.replica();
    const { scope, loop, turn, taskNo } = await a.working();
    for (const id of ['a1', 'a2', 'a3']) loop.add(artifact(scope, id));
    await turn.flush();
    await cluster.db.query('DELETE FROM a2a_task_events WHERE task_no = $1 AND version = 3', [taskNo]);
    const gap = expect.objectContaining({ taskNo, fromVersion: 2, toVersion: 4, found: 2 }) as unknown;
    await expect(a.tasks.find(scope)).rejects.toEqual(gap);
    await expect(a.tasks.findByNo(taskNo)).rejects.toThrow(EventLogGapError);
    await expect(a.admit(scope)).resolves.toMatchObject({ outcome: 'busy' });
  });

  it('a pruned log before the snapshot is no gap', async () => {
    const a = await cluster.replica();
    const { scope, taskNo } = await a.waiting();
    const before = wire((await a.tasks.find(scope))?.task);
    await cluster.db.query('DELETE FROM a2a_task_events WHERE task_no = $1', [taskNo]);
    expect(wire((await a.tasks.find(scope))?.task)).toEqual(before);
    const turn = await a.followUp(scope, message('answer'));
    turn.loop!.add(status(scope, COMPLETED));
    await turn.flush();
    expect(await a.tasks.find(scope)).toMatchObject({ version: 4, task: { status: { state: COMPLETED } } });
  });
});

/** An event as the bus hands it on: with the ids of its turn. */
function ofScope(published: TaskChange, taskId: string): TaskEvent {
  const ids = { taskId, contextId: `context of ${taskId}` };
  switch (published.kind) {
    case 'task':
      return { kind: 'task', task: { ...published.data, id: taskId, contextId: ids.contextId } };
    case 'statusUpdate':
      return { kind: 'statusUpdate', statusUpdate: { ...published.data, ...ids } };
    case 'artifactUpdate':
      return { kind: 'artifactUpdate', artifactUpdate: { ...published.data, ...ids } };
  }
}
