import { StreamResponse, Task } from '@a2a-js/sdk';
import { applyEvent } from '../../libs/a2a-cluster/src/tasks/apply-event.js';
import type { TaskEvent } from '../../libs/a2a-cluster/src/tasks/task-event.js';
import { decodeEvent } from '../../libs/a2a-cluster/src/tasks/task-event.codec.js';
import type { TestDatabase } from './database.js';

const TERMINAL = new Set(['COMPLETED', 'FAILED', 'CANCELED', 'REJECTED']);

/** One row of a task's event log. */
export interface LogEntry {
  version: number;
  kind: TaskEvent['kind'];
  /** The state it sets, by its short name. */
  state: string | undefined;
  /** The number that the scripted agent gives each event it publishes; none on what the cluster itself writes. */
  n: number | undefined;
  /** Text of the status message or of the user's message. */
  text: string | undefined;
  /** When it was written, by the database's clock. */
  at: Date;
  event: TaskEvent;
  /** The response that a subscriber gets for it, as JSON; undefined where it gets none. */
  response: unknown;
}

/** What the database holds of a task. */
export interface TaskLog {
  taskNo: string;
  version: number;
  state: string;
  entries: LogEntry[];
  leases: number;
}

/** The id of the task that was begun last, for a sender that was not told it. */
export async function lastTaskId(database: TestDatabase): Promise<string> {
  const [task] = await database.query<{ id: string }>(
    'SELECT task_id AS id FROM a2a_tasks ORDER BY task_no DESC LIMIT 1',
  );
  if (!task) throw new Error('There is no task');
  return task.id;
}

/** Reads it in one statement, and so at one moment. */
export async function readLog(database: TestDatabase, taskId: string): Promise<TaskLog> {
  const [row] = await database.query<Omit<TaskLog, 'entries'> & { events: Row[] | null }>(
    `SELECT t.task_no AS "taskNo", t.version, replace(t.state, 'TASK_STATE_', '') AS state,
            (SELECT json_agg(json_build_object('version', e.version, 'event', e.event, 'at', e.created_at)
                             ORDER BY e.version)
               FROM a2a_task_events AS e WHERE e.task_no = t.task_no) AS events,
            (SELECT count(*)::integer FROM a2a_task_leases AS l WHERE l.task_no = t.task_no) AS leases
       FROM a2a_tasks AS t WHERE t.task_id = $1`,
    [taskId],
  );
  if (!row) throw new Error(`There is no task ${taskId}`);
  const { events, ...task } = row;
  return { ...task, entries: (events ?? []).map(entryOf) };
}

/**
 * I4 and I5 as the database shows them: versions 1, 2, 3 … up to the task's own, at most one terminal event, nothing
 * after it, a state that the log accounts for, and the agent's numbers rising without a gap (`cancelTask` of a task
 * that waits takes any high one).
 */
export function expectSound(log: TaskLog): void {
  const { entries, version, state } = log;
  expect(entries.map((entry) => entry.version)).toEqual(entries.map((_, at) => at + 1));
  expect(version).toBe(entries.length);
  const states = entries.flatMap((entry) => entry.state ?? []);
  expect(states.at(-1)).toBe(state);
  const terminal = entries.filter((entry) => TERMINAL.has(entry.state ?? ''));
  expect(terminal.map((entry) => entry.version)).toEqual(TERMINAL.has(state) ? [version] : []);
  const numbers = entries.flatMap(({ n, state: set }) => (n === undefined || set === 'CANCELED' ? [] : [n]));
  expect(numbers).toEqual(numbers.map((_, at) => at + 1));
}

/** The log is sound and ends with this state, and nobody holds a lease on the task any more. */
export function expectEnded(log: TaskLog, state: string): void {
  expectSound(log);
  expect({ state: log.state, leases: log.leases }).toEqual({ state, leases: 0 });
}

/**
 * I5 as a subscriber sees it: a snapshot that is the log up to some version, then every deliverable event after it
 * once and in order, up to the log's end (or up to version `until`).
 */
export function expectFollowed(responses: readonly StreamResponse[], log: TaskLog, until = log.version): void {
  const { heard, toHear } = followed(responses, log, until);
  expect(heard).toEqual(toHear);
}

/** The same for somebody whose stream was cut, wherever that was: what he was told is in the log, with no gap. */
export function expectFollowedSoFar(responses: readonly StreamResponse[], log: TaskLog): void {
  if (responses.length === 0) return;
  const { heard, toHear } = followed(responses, log, log.version);
  expect(heard).toEqual(toHear.slice(0, heard.length));
}

/** What came after the snapshot, and what had to come. */
function followed(responses: readonly StreamResponse[], log: TaskLog, until: number) {
  const [first, ...heard] = responses.map((response) => StreamResponse.toJSON(response));
  const from = snapshotVersion((first as { task?: Snapshot }).task, log);
  const entries = log.entries.filter(({ version, response }) => version > from && version <= until && response);
  return { heard, toHear: entries.map(({ response }) => response) };
}

/** What the sweeper knew of the replica that it found dead. */
export interface Recovery {
  lastHolder: string;
  /** By the database's clock. */
  lastHeartbeat: Date;
  attempts: number;
  /** When FAILED was written, by the same clock. */
  at: Date;
}

/** The facts in the FAILED event that the sweeper wrote; the text for people names them as well. */
export function recoveryOf({ entries }: TaskLog): Recovery {
  const last = entries.at(-1);
  const message = last?.event.kind === 'statusUpdate' ? last.event.statusUpdate.status?.message : undefined;
  const facts = message?.metadata?.['a2a-cluster/recovery'] as (Recovery & { lastHeartbeat: string }) | undefined;
  if (!last || !facts) throw new Error(`No recovery ended this log: ${JSON.stringify(entries.slice(-3))}`);
  for (const named of [facts.lastHolder, facts.lastHeartbeat]) expect(last.text).toContain(named);
  return { ...facts, lastHeartbeat: new Date(facts.lastHeartbeat), at: last.at };
}

/** How many of the user's messages in the task's history have this text. */
export function userMessages({ entries }: TaskLog, text: string): number {
  const task = entries.reduce<Task | undefined>((folded, { event }) => applyEvent(folded, event), undefined);
  const texts = (task?.history ?? []).map(({ parts }) => parts.map(({ content }) => String(content?.value)).join('\n'));
  return texts.filter((it) => it === text).length;
}

interface Snapshot {
  metadata?: { n?: number };
}

interface Row {
  version: number;
  event: string;
  at: string;
}

function entryOf({ version, event: text, at }: Row): LogEntry {
  const event = decodeEvent(text);
  const stored = JSON.parse(text) as Partial<Record<TaskEvent['kind'], Stored>>;
  const { kind } = event;
  const { status, metadata } = stored[kind] ?? {};
  const message = kind === 'userMessage' ? stored.userMessage : status?.message;
  const { task, statusUpdate, artifactUpdate } = stored;
  const delivered = {
    ...(task && { task }),
    ...(statusUpdate && { statusUpdate }),
    ...(artifactUpdate && { artifactUpdate }),
  };
  return {
    version,
    kind,
    at: new Date(at),
    event,
    state: status?.state?.replace('TASK_STATE_', ''),
    n: metadata?.n,
    text: message?.parts?.map((part) => part.text ?? '').join('\n'),
    response: Object.keys(delivered).length > 0 ? delivered : undefined,
  };
}

interface Stored {
  status?: { state?: string; message?: Stored };
  metadata?: { n?: number };
  parts?: { text?: string }[];
}

/** The version whose task a snapshot is. The log is folded anew: what the store keeps as a snapshot is not asked. */
function snapshotVersion(snapshot: Snapshot | undefined, { entries }: TaskLog): number {
  let task: Task | undefined;
  for (const { version, event } of entries) {
    task = applyEvent(task, event);
    if (task.metadata?.n === snapshot?.metadata?.n && isSame(Task.toJSON(task), snapshot)) return version;
  }
  throw new Error(`The snapshot is the task at no version of it: ${JSON.stringify(snapshot)}`);
}

const isSame = (one: unknown, other: unknown): boolean => canonical(one) === canonical(other);

/** JSON whose keys are in one order. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, it: unknown) =>
    it && typeof it === 'object' && !Array.isArray(it)
      ? Object.fromEntries(Object.entries(it).sort(([a], [b]) => (a < b ? -1 : 1)))
      : it,
  );
}
