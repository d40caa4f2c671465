import type { StreamResponse } from '@a2a-js/sdk';
import type { TestDatabase } from '../helpers/database.js';
import { LOAD_MS } from '../helpers/cluster.js';
import { expectFollowed, expectFollowedSoFar, readLog, type TaskLog, userMessages } from '../helpers/task-log.js';
import { eventually } from '../../tools/harness/wait.js';
import type { Registered, Stage } from './stage.js';

const TERMINAL = ['COMPLETED', 'FAILED', 'CANCELED', 'REJECTED'];

/** Tasks that came after the given one, by their numbers. */
export async function tasksAfter(database: TestDatabase, taskNo: string): Promise<string[]> {
  const rows = await database.query<{ id: string }>(
    'SELECT task_id AS id FROM a2a_tasks WHERE task_no > $1 ORDER BY task_no',
    [taskNo],
  );
  return rows.map(({ id }) => id);
}

export async function lastTaskNo(database: TestDatabase): Promise<string> {
  const [row] = await database.query<{ no: string }>('SELECT coalesce(max(task_no), 0) AS no FROM a2a_tasks');
  return row!.no;
}

/** I2, I6: nobody holds a lease, and what has not ended waits for its client. */
export async function isQuiet(database: TestDatabase): Promise<boolean> {
  const [row] = await database.query<{ busy: number }>(
    `SELECT (SELECT count(*) FROM a2a_task_leases)::integer
          + (SELECT count(*) FROM a2a_tasks WHERE state IN ('TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING'))::integer AS busy`,
  );
  return row!.busy === 0;
}

/**
 * The contract, once all tasks have ended: in the database, for who sent, who followed, who canceled, for the receivers
 * and for the outside.
 */
export async function expectContract(stage: Stage, taskIds: readonly string[]): Promise<void> {
  const { database } = stage.cluster;
  const logs = await Promise.all(taskIds.map((id) => readLog(database, id)));
  const logOf = (taskId: string): TaskLog => logs[taskIds.indexOf(taskId)]!;
  for (const log of logs) expectOneHistory(log);
  for (const { recording, taskId } of stage.watchers) {
    await recording.finished(LOAD_MS);
    expectFollowed(recording.responses, logOf(taskId));
  }
  for (const { recording, text, to } of stage.sent) {
    const times = logs.map((log) => userMessages(log, text)).reduce((sum, count) => sum + count, 0);
    const taskId = taskIn(recording.responses[0]);
    // Accepted once if he was told of it; else it may not have been accepted, but never twice.
    expect(times).toBeLessThanOrEqual(1);
    if (taskId === undefined) continue;
    expect(times).toBe(1);
    expectFollowedSoFar(recording.responses, logOf(taskId));
    if (to === stage.survivor) expect((await recording.ended).how).toBe('finished');
  }
  for (const taskId of stage.canceled) expect(logOf(taskId).state).toBe('CANCELED');
  for (const registered of stage.registered) await expectTold(database, registered, logOf(registered.taskId));
  for (const [at, taskId] of taskIds.entries()) await expectEffects(database, taskId, logs[at]!);
}

/** I4, I5: versions 1, 2, 3 … to the task's own, one terminal event and nothing after it, no lease. */
export function expectOneHistory({ entries, version, state, leases }: TaskLog): void {
  expect(entries.map((entry) => entry.version)).toEqual(Array.from({ length: version }, (_, at) => at + 1));
  const ends = entries.filter((entry) => TERMINAL.includes(entry.state ?? ''));
  expect(ends.map((entry) => [entry.version, entry.state])).toEqual([[version, state]]);
  expect(leases).toBe(0);
  // The agent numbers its events: none is missing between two. Another attempt begins where its own task began.
  const attempts = entries.filter(({ text }) => text?.startsWith('attempt ')).length;
  const numbers = entries.flatMap(({ n, state: set }) => (n === undefined || set === 'CANCELED' ? [] : [n]));
  const breaks = numbers.filter((n, at) => n !== (numbers[at - 1] ?? 0) + 1).length;
  expect(breaks).toBeLessThanOrEqual(attempts);
}

const taskIn = (first: StreamResponse | undefined): string | undefined =>
  first?.payload?.$case === 'task' ? first.payload.value.id : undefined;

/** Everything after it was registered, in order, once or more, to the end; and that is on record. */
async function expectTold(database: TestDatabase, { receiver, after }: Registered, log: TaskLog): Promise<void> {
  const entries = log.entries.filter(({ version, response }) => version > after && response);
  const expected = entries.map(({ response }) => JSON.stringify(response));
  const bodies = (): string[] => receiver.received.map(({ body }) => JSON.stringify(body));
  await receiver.until(() => bodies().includes(expected.at(-1)!), LOAD_MS);
  expect(bodies().filter((body, at, all) => all.indexOf(body) === at)).toEqual(expected);
  await eventually(
    async () => {
      const rows = await database.query(
        'SELECT delivered_version AS delivered, failed FROM a2a_push_configs WHERE task_no = $1',
        [log.taskNo],
      );
      expect(rows).toEqual([{ delivered: log.version, failed: null }]);
      return true;
    },
    { timeoutMs: LOAD_MS },
  );
}

/** What the outside has of a task, and what the ledger of effects says. */
export interface EffectCounts {
  attempts: number;
  accepted: number;
  unresolved: string[];
  never: boolean;
}

async function expectEffects(database: TestDatabase, taskId: string, log: TaskLog): Promise<void> {
  const [counts] = await database.query<EffectCounts & Record<string, unknown>>(
    `SELECT (SELECT count(*)::integer FROM ledger.dispatch_attempts WHERE task_id = $1) AS attempts,
            (SELECT count(*)::integer FROM ledger.entries WHERE task_id = $1 AND account = 'customer') AS accepted,
            coalesce(json_agg(key) FILTER (WHERE state = 'dispatched'), '[]') AS unresolved,
            coalesce(bool_or(replay = 'never'), false) AS never
       FROM a2a_task_effects WHERE task_no = $2`,
    [taskId, log.taskNo],
  );
  expectAllowed(counts!, log);
}

/** I7: accepted once at most, dispatched again only where that was allowed; what nobody knows of is named in FAILED. */
export function expectAllowed({ attempts, accepted, unresolved, never }: EffectCounts, log: TaskLog): void {
  expect(accepted).toBeLessThanOrEqual(1);
  if (never) expect(attempts).toBeLessThanOrEqual(1);
  const said = log.entries.filter(({ text }) => /^(charged|transferred) /.test(text ?? '')).length;
  if (said > 0) expect(accepted).toBe(1);
  if (unresolved.length > 0) expect(log.state).toBe('FAILED');
  for (const key of unresolved) expect(log.entries.at(-1)!.text).toContain(`'${key}'`);
}
