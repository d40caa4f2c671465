import { createHash } from 'node:crypto';
import type { AuditRow, Dump, EventRow } from '../dump.js';
import type { Json, Line, Untimed } from '../recording.js';
import { fold } from '../checker/fold.js';

type Mutable<T> = T extends object ? { -readonly [K in keyof T]: Mutable<T[K]> } : T;

/** A recording and a dump that a test may spoil. */
export interface Run {
  lines: Mutable<Line>[];
  dump: Mutable<Dump>;
}

export const TASK = 'task-1';
export const TIMES = { ttl: 2_500, sweep: 500 };
const TURN = '00000000-0000-0000-0000-000000000001';

const state = (name: string) => `TASK_STATE_${name}`;
const message = (messageId: string): Json => ({ messageId, role: 'ROLE_USER', parts: [{ text: messageId }] });
const status = (name: string, metadata: Json): Json => ({
  statusUpdate: { taskId: TASK, status: { state: state(name), timestamp: `at ${JSON.stringify(metadata)}` }, metadata },
});

/** A turn that asks, and a follow-up whose replica dies and which another one runs again. */
export const EVENTS: readonly Json[] = [
  {
    task: {
      id: TASK,
      contextId: 'c',
      status: { state: state('WORKING') },
      history: [message('m1')],
      metadata: { n: 1, attempt: 1 },
    },
  },
  status('WORKING', { n: 2, attempt: 1, fencingToken: 1 }),
  {
    artifactUpdate: {
      taskId: TASK,
      artifact: { artifactId: 'a', parts: [{ text: '1' }] },
      metadata: { n: 3, attempt: 1, fencingToken: 1 },
    },
  },
  status('INPUT_REQUIRED', { n: 4, attempt: 1, fencingToken: 1 }),
  { userMessage: message('m2') },
  status('WORKING', { n: 5, attempt: 2, fencingToken: 3 }),
  status('COMPLETED', { n: 6, attempt: 2, fencingToken: 3 }),
];

/** The task at a version. */
export const taskAt = (version: number): Json =>
  EVENTS.slice(0, version).reduce<Json | undefined>((task, event) => fold(task, event), undefined) ?? {};

const keyOf = (name: string): string => createHash('sha256').update(`${TURN}\n${name}`).digest('base64url');

/** What happened to the lease and to the log, a transaction each. */
function auditRows(): AuditRow[] {
  const rows: AuditRow[] = [];
  const lease = (generation: number, holder: string, expiresAt: number): Json => ({
    generation,
    holder: `host:${holder}:x`,
    attempt: generation === 3 ? 2 : 1,
    begun: true,
    claims: generation === 3 ? 1 : 0,
    kind: 'message',
    agent: 'agent-1',
    expiresAt,
    renewedAt: expiresAt - TIMES.ttl,
  });
  const add = (at: number, source: AuditRow['source'], op: AuditRow['op'], before: Json | null, after: Json | null) => {
    rows.push({ seq: rows.length + 1, at, txid: String(at), source, op, taskNo: 1, before, after });
  };
  const commit = (at: number, version: number, name: string) => {
    add(at, 'task', version === 1 ? 'insert' : 'update', null, { version, state: state(name) });
    add(at, 'event', 'insert', null, { version });
  };
  commit(1_000, 1, 'WORKING');
  add(1_000, 'lease', 'insert', null, lease(1, '10', 3_500));
  add(1_000, 'push', 'insert', null, { configId: 'push-1', delivered: 0 });
  commit(1_100, 2, 'WORKING');
  commit(1_200, 3, 'WORKING');
  commit(1_300, 4, 'INPUT_REQUIRED');
  add(1_300, 'lease', 'delete', lease(1, '10', 3_500), null);
  commit(2_000, 5, 'INPUT_REQUIRED');
  add(2_000, 'lease', 'insert', null, lease(2, '10', 4_500));
  add(4_800, 'lease', 'update', lease(2, '10', 4_500), lease(3, '20', 7_300));
  commit(5_000, 6, 'WORKING');
  commit(5_500, 7, 'COMPLETED');
  add(5_500, 'lease', 'delete', lease(3, '20', 7_300), null);
  return rows;
}

function recorded(): Line[] {
  const lines: Line[] = [];
  const write = (at: number, line: Untimed) => lines.push({ ...line, at });
  const asks = (
    at: number,
    call: number,
    operation: 'send' | 'stream' | 'subscribe' | 'get' | 'cancel' | 'list',
    more = {},
  ) => write(at, { kind: 'request', call, operation, replica: 'A', transport: 'JSONRPC', user: 'ada', ...more });
  const hears = (at: number, call: number, event: Json) => write(at, { kind: 'event', call, event });
  for (const [name, pid] of [
    ['A', 10],
    ['B', 20],
  ] as const) {
    write(0, { kind: 'process', replica: name, agent: 'agent-1', policy: 're-execute', pid, phase: 'serves' });
  }
  asks(900, 1, 'stream', { messageId: 'm1' });
  for (const [at, event] of EVENTS.slice(0, 4).entries()) hears(1_010 + 100 * at, 1, event);
  write(1_400, { kind: 'end', call: 1, how: 'finished' });
  asks(1_150, 2, 'subscribe', { taskId: TASK });
  hears(1_160, 2, { task: taskAt(2) });
  for (const [index, at] of [2, 3, 5, 6].entries()) hears(2_000 + index, 2, EVENTS[at]!);
  write(5_600, { kind: 'end', call: 2, how: 'finished' });
  asks(1_900, 3, 'send', { taskId: TASK, messageId: 'm2' });
  write(5_600, { kind: 'answer', call: 3, task: taskAt(7) });
  asks(5_700, 4, 'get', { taskId: TASK });
  write(5_710, { kind: 'answer', call: 4, task: taskAt(7) });
  asks(5_720, 5, 'send', { taskId: TASK, messageId: 'm3' });
  write(5_730, { kind: 'end', call: 5, how: 'refused', error: 'UnsupportedOperationError: it has ended' });
  asks(5_740, 6, 'list');
  write(5_750, { kind: 'answer', call: 6, listed: [{ taskId: TASK, state: state('COMPLETED') }] });
  for (const at of [0, 1, 1, 2, 3, 5, 6]) {
    write(5_800, { kind: 'push', configId: 'push-1', event: EVENTS[at]!, status: 200 });
  }
  return lines;
}

/** A run in which every promise was kept. */
export function greenRun(): Run {
  const rows = EVENTS.map((event, at): EventRow => ({
    taskNo: 1,
    version: at + 1,
    event: JSON.stringify(event),
    commitId: `commit-${at + 1}`,
  }));
  const effect = (key: string, replay: string) => ({
    taskNo: 1,
    turnId: TURN,
    key,
    replay,
    state: 'succeeded',
    attempt: 1,
    generation: 1,
  });
  const entry = (name: string, account: string, amount: number) => ({
    taskId: TASK,
    key: keyOf(name),
    account,
    amount,
  });
  const dump: Dump = {
    tasks: [
      {
        taskNo: 1,
        taskId: TASK,
        agent: 'agent-1',
        owner: 'ada',
        state: state('COMPLETED'),
        version: 7,
        stateVersion: 7,
        snapshot: JSON.stringify(taskAt(7)),
        snapshotVersion: 7,
      },
    ],
    events: rows,
    leases: [],
    effects: [effect('charge-1', 'never'), effect('charge-2', 'idempotent'), effect('transfer-3', 'transaction')],
    pushConfigs: [{ taskNo: 1, configId: 'push-1', delivered: 7, failed: null }],
    dispatches: ['charge-1', 'charge-2', 'charge-2', 'transfer-3'].map((name) => ({ taskId: TASK, key: keyOf(name) })),
    entries: [
      entry('charge-1', 'customer', -5),
      entry('charge-2', 'customer', -6),
      entry('transfer-3', 'customer', -7),
      entry('transfer-3', 'merchant', 7),
    ],
    audit: auditRows(),
  };
  return structuredClone({ lines: recorded(), dump }) as Run;
}

/** What somebody does to a run in which all was well, and what has to be found then. */
export type Seeded = readonly [what: string, invariant: string, text: RegExp, spoil: (run: Run) => void];

export function removeFirst<T>(from: T[], which: (item: T) => boolean): void {
  const at = from.findIndex(which);
  if (at < 0) throw new Error('There is nothing to remove');
  from.splice(at, 1);
}
