import { appendFile } from 'node:fs/promises';
import type { AuditRow, Dump } from './dump.js';
import { type History, historyOf } from './checker/history.js';
import type { Violation } from './checker/violation.js';
import type { ChaosOptions } from './options.js';
import type { Line } from './recording.js';
import { TIMES } from './times.js';

/** What a run has to say of itself. */
export interface RunSummary {
  readonly ok: boolean;
  readonly seed: number;
  readonly seconds: number;
  readonly replicas: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly scenarios: Readonly<Record<string, number>>;
  /** Tasks by the state that they ended in. */
  readonly tasks: Readonly<Record<string, number>>;
  readonly checked: Readonly<Record<string, number>>;
  readonly violations: number;
}

export const sum = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((total, count) => total + count, 0);

export function countedIn(lines: readonly Line[], dump: Dump): Pick<RunSummary, 'tasks' | 'checked'> {
  const tasks: Record<string, number> = {};
  for (const { state } of dump.tasks) {
    const name = state.replace('TASK_STATE_', '');
    tasks[name] = (tasks[name] ?? 0) + 1;
  }
  const ofKind = (kind: Line['kind']) => lines.filter((line) => line.kind === kind).length;
  const generations = dump.audit.filter(({ source, op, before, after }) => {
    return source === 'lease' && op === 'update' && before?.generation !== after?.generation;
  });
  const checked = {
    events: dump.events.length,
    transactions: new Set(dump.audit.map(({ txid }) => txid)).size,
    calls: ofKind('request'),
    answers: ofKind('answer'),
    streamEvents: ofKind('event'),
    brokenOffCalls: lines.filter((line) => line.kind === 'end' && line.how === 'broken').length,
    pushReceivers: dump.pushConfigs.length,
    notifications: ofKind('push'),
    effects: dump.effects.length,
    ledgerEntries: dump.entries.length,
    changesOfGeneration: generations.length,
  };
  return { tasks, checked };
}

export const inWords = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');

const HISTORY_LINES = 120;

/** The shortest of so many histories is short enough. */
const CONSIDERED = 20;

/** The violations, and all that is known of the one task among them of which the least is known. */
export function violationReport(violations: readonly Violation[], lines: readonly Line[], dump: Dump): string[] {
  const said = violations.slice(0, 50).map(({ invariant, taskId, text }) => {
    return `VIOLATION ${invariant}${taskId === undefined ? '' : ` task ${taskId}`}: ${text}`;
  });
  const concerned = [...new Set(violations.flatMap(({ taskId }) => taskId ?? []))].slice(0, CONSIDERED);
  const history = historyOf(lines, dump, TIMES);
  const histories = concerned.map((taskId) => historyLines(taskId, history));
  const shortest = histories.sort((a, b) => a.length - b.length)[0] ?? [];
  const more = violations.length > said.length ? [`… and ${violations.length - said.length} more`] : [];
  const left =
    shortest.length > HISTORY_LINES ? [`… ${shortest.length - HISTORY_LINES} more lines in the recording`] : [];
  return [
    ...said,
    ...more,
    '',
    'The shortest history of a task concerned:',
    ...shortest.slice(0, HISTORY_LINES),
    ...left,
  ];
}

/** In the order of time: what clients saw of a task, what was written of it, and what happened to the cluster. */
function historyLines(taskId: string, history: History): string[] {
  const { lines, dump } = history;
  const task = history.tasks.get(taskId);
  const calls = new Set(
    history.calls.flatMap(({ request, answer, events }) => {
      const about = request.taskId === taskId || JSON.stringify([answer, events[0]]).includes(taskId);
      return about ? [request.call] : [];
    }),
  );
  const configs = dump.pushConfigs.filter(({ taskNo }) => taskNo === task?.row.taskNo).map(({ configId }) => configId);
  const about = (line: Line): boolean => {
    if ('call' in line) return calls.has(line.call);
    return line.kind === 'push' && configs.includes(line.configId);
  };
  const own = lines.filter(about).map(({ at, ...line }) => ({ at, text: JSON.stringify(line) }));
  const written = (task?.audit ?? []).map((row) => ({ at: row.at, text: auditText(row, task!.log.events) }));
  const times = [...own, ...written].map(({ at }) => at);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const around = lines
    .filter((line) => ['fault', 'process', 'outage'].includes(line.kind) && line.at >= first && line.at <= last)
    .map(({ at, ...line }) => ({ at, text: JSON.stringify(line) }));
  return [...own, ...written, ...around]
    .sort((a, b) => a.at - b.at)
    .map(({ at, text }) => `${((at - first) / 1000).toFixed(3).padStart(9)} ${text.slice(0, 400)}`);
}

function auditText(row: AuditRow, events: readonly { version: number; event: object }[]): string {
  const { seq, txid, source, op, before, after } = row;
  const event = source === 'event' && events.find(({ version }) => version === after?.version);
  const what = event
    ? { version: event.version, ...event.event }
    : { ...(before && { before }), ...(after && { after }) };
  return `audit ${seq} tx ${txid} ${source} ${op} ${JSON.stringify(what)}`;
}

/** One item of the list of runs in docs/internals/reliability.md. */
export function summaryItem(summary: RunSummary): string {
  const { seed, replicas, seconds, faults, tasks, violations } = summary;
  const lines = [
    `- **Seed ${seed}**, ${replicas} replicas, ${seconds} s, ${violations} violations.`,
    `  - ${sum(faults)} faults: ${inWords(faults)}.`,
    `  - ${sum(tasks)} tasks: ${inWords(tasks)}.`,
  ];
  return `${lines.join('\n')}\n`;
}

export async function appendSummary({ summary: file }: ChaosOptions, summary: RunSummary): Promise<void> {
  if (file !== undefined) await appendFile(file, summaryItem(summary));
}
