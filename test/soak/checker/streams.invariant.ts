import type { Json } from '../recording.js';
import { stateOf } from './fold.js';
import type { Call, History, TaskHistory } from './history.js';
import { objectAt, textAt } from './json.js';
import { isInterrupted, isTerminal } from './states.js';
import { toldText } from './task-log.js';
import type { Violation } from './violation.js';
import { stopsOf, within } from './windows.js';

/**
 * I5: every stream begins with the task at some version n, and goes on with what is delivered after n, each once and in
 * order. One whose connection broke may end early; one that ended in order ends with its task, or where its user is asked.
 */
export function streams(history: History): Violation[] {
  return history.calls.flatMap((call) => {
    const [first, ...rest] = call.events;
    if (!first) return [];
    const snapshot = objectAt(first.event, 'task');
    const found = (text: string, taskId?: string): Violation[] => [
      { invariant: 'I5', ...(taskId !== undefined && { taskId }), text: `${describe(call)}: ${text}` },
    ];
    if (!snapshot) {
      const alone = objectAt(first.event, 'message') && rest.length === 0;
      return alone ? [] : found(`it began with ${Object.keys(first.event).join()}, not with the task`);
    }
    const task = history.tasks.get(textAt(snapshot, 'id') ?? '');
    if (!task) return found(`it shows task ${textAt(snapshot, 'id')}, which is not in the database`);
    const { taskId } = task.row;
    const versions = task.log.versionsOf(snapshot);
    if (versions.length === 0) return found('its task is at no version what the log says', taskId);
    const received = rest.map(({ event }) => event);
    const mismatches = versions.map((version) => mismatch(task, version, received));
    if (mismatches.every((text) => text !== undefined)) return found(mismatches[0] ?? '', taskId);
    const early = endedEarly(history, call, snapshot, received);
    return early === undefined ? [] : found(early, taskId);
  });
}

function mismatch({ log }: TaskHistory, version: number, received: readonly Json[]): string | undefined {
  const expected = log.toldAfter(version);
  for (const [index, event] of received.entries()) {
    const isLast = index === received.length - 1;
    if (isLast && objectAt(event, 'message')) return undefined; // what answers the sender alone
    const next = expected[index];
    const told = toldText(event);
    if (next !== undefined && told === next.told) continue;
    const at = expected.find((other) => other.told === told)?.version;
    const got = at === undefined ? 'one that is not in the log' : `event ${at}`;
    return `from version ${version} on, event ${next?.version ?? 'none'} was due and ${got} came`;
  }
  return undefined;
}

function endedEarly(history: History, call: Call, snapshot: Json, received: readonly Json[]): string | undefined {
  const { end, request } = call;
  if (end?.how !== 'finished') return undefined;
  const last = received.at(-1);
  if (last && objectAt(last, 'message')) return undefined;
  const set = [snapshot, ...received.map((event) => objectAt(event, 'statusUpdate'))].findLast((it) => stateOf(it));
  const state = stateOf(set);
  if (isTerminal(state)) return undefined;
  if (request.operation === 'stream' && isInterrupted(state)) return undefined;
  if (stopsOf(history, request.replica).some((stop) => within(end.at, stop))) return undefined;
  return `it ended in order while the task was ${state}`;
}

export function describe({ request }: Call): string {
  const { operation, call, replica, transport, user } = request;
  return `${operation} ${call} of ${user} at ${replica} over ${transport}`;
}
