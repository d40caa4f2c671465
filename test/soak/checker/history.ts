import type { AuditRow, Dump, EventRow, TaskRow } from '../dump.js';
import type { AnswerLine, EndLine, EventLine, Line, RequestLine } from '../recording.js';
import { TaskLog } from './task-log.js';

/** One call of a client, from the request to its end. */
export interface Call {
  readonly request: RequestLine;
  readonly events: readonly EventLine[];
  readonly answer: AnswerLine | undefined;
  readonly end: EndLine | undefined;
}

/** All that is known of one task. */
export interface TaskHistory {
  readonly row: TaskRow;
  readonly log: TaskLog;
  /** What the triggers wrote down, in the order in which it was done. */
  readonly audit: readonly AuditRow[];
}

/** The times that replicas ran with, in ms. */
export interface Times {
  readonly ttl: number;
  readonly sweep: number;
}

/** A recording and a dump, put together by task and by call. */
export interface History {
  readonly lines: readonly Line[];
  readonly dump: Dump;
  readonly times: Times;
  readonly tasks: ReadonlyMap<string, TaskHistory>;
  readonly byNo: ReadonlyMap<number, TaskHistory>;
  readonly calls: readonly Call[];
}

export function historyOf(lines: readonly Line[], dump: Dump, times: Times): History {
  const events = grouped<EventRow>(dump.events);
  const audit = grouped<AuditRow>(dump.audit);
  const all = dump.tasks.map((row): TaskHistory => ({
    row,
    log: new TaskLog(events.get(row.taskNo) ?? []),
    audit: audit.get(row.taskNo) ?? [],
  }));
  return {
    lines,
    dump,
    times,
    calls: callsOf(lines),
    tasks: new Map(all.map((task) => [task.row.taskId, task])),
    byNo: new Map(all.map((task) => [task.row.taskNo, task])),
  };
}

/** The rows of each task, in their order. */
export function grouped<R extends { readonly taskNo: number }>(rows: readonly R[]): Map<number, R[]> {
  const groups = new Map<number, R[]>();
  for (const row of rows) {
    const group = groups.get(row.taskNo);
    if (group) group.push(row);
    else groups.set(row.taskNo, [row]);
  }
  return groups;
}

/** The rows of each transaction, in the order of the transactions. */
export function transactionsOf(audit: readonly AuditRow[]): AuditRow[][] {
  const transactions = new Map<string, AuditRow[]>();
  for (const row of audit) {
    const rows = transactions.get(row.txid);
    if (rows) rows.push(row);
    else transactions.set(row.txid, [row]);
  }
  return [...transactions.values()];
}

function callsOf(lines: readonly Line[]): Call[] {
  const calls = new Map<number, { request: RequestLine; events: EventLine[]; answer?: AnswerLine; end?: EndLine }>();
  for (const line of lines) {
    if (line.kind === 'request') calls.set(line.call, { request: line, events: [] });
    if (line.kind === 'event') calls.get(line.call)?.events.push(line);
    if (line.kind === 'answer') Object.assign(calls.get(line.call) ?? {}, { answer: line });
    if (line.kind === 'end') Object.assign(calls.get(line.call) ?? {}, { end: line });
  }
  return [...calls.values()].map(({ request, events, answer, end }) => ({ request, events, answer, end }));
}
