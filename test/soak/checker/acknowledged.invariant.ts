import type { Json } from '../recording.js';
import { stateOf } from './fold.js';
import type { Call, History, TaskHistory } from './history.js';
import { objectAt, textAt } from './json.js';
import { describe } from './streams.invariant.js';
import type { Violation } from './violation.js';

/** What a client was shown of a task, and when it knew it. */
interface Shown {
  readonly at: number;
  readonly version: number;
}

/**
 * Nothing that a client was told is lost: each task shown is the fold of the log at some version, and none that is asked
 * for later is older; a message that was answered by a task is in its log, and in no log twice; a cancel that was
 * answered has ended the task.
 */
export function acknowledged(history: History): Violation[] {
  return [...answers(history), ...messages(history), ...refusals(history), ...listings(history)];
}

function answers(history: History): Violation[] {
  const shown = new Map<string, Shown[]>();
  // In the order in which the answers came.
  const calls = history.calls.filter(({ answer }) => answer?.task).sort((a, b) => a.answer!.at - b.answer!.at);
  return calls.flatMap((call): Violation[] => {
    const snapshot = call.answer!.task!;
    const taskId = textAt(snapshot, 'id') ?? '';
    const task = history.tasks.get(taskId);
    const found = (text: string): Violation[] => [
      { invariant: 'acknowledged', ...(task && { taskId }), text: `${describe(call)}: ${text}` },
    ];
    if (!task) return found(`task ${taskId} was shown, and is not in the database`);
    const versions = task.log.versionsOf(snapshot);
    const version = versions.at(-1);
    if (version === undefined) return found(`the task that was shown is at no version what the log says`);
    const before = (shown.get(taskId) ?? []).filter(({ at }) => at < call.request.at);
    const known = before.reduce((most, it) => Math.max(most, it.version), 0);
    shown.set(taskId, [...(shown.get(taskId) ?? []), { at: call.answer!.at, version: versions[0]! }]);
    if (version < known) return found(`version ${version} was shown after version ${known} had been`);
    const state = stateOf(snapshot);
    if (call.request.operation !== 'cancel' || state === 'TASK_STATE_CANCELED') return [];
    return found(`a cancel was answered by a task that is ${state}`);
  });
}

/** Messages that were accepted: answered by a task, or by a stream that begins with one. */
function messages({ calls, tasks }: History): Violation[] {
  const holders = new Map<string, string[]>();
  for (const { row, log } of tasks.values()) {
    for (const id of log.messageIds()) holders.set(id, [...(holders.get(id) ?? []), row.taskId]);
  }
  const twice = [...new Set(calls.flatMap(({ request }) => request.messageId ?? []))].flatMap((id): Violation[] => {
    const [taskId, ...others] = holders.get(id) ?? [];
    if (taskId === undefined || others.length === 0) return [];
    return [{ invariant: 'acknowledged', taskId, text: `message ${id} was accepted ${others.length + 1} times` }];
  });
  const lost = calls.flatMap((call): Violation[] => {
    const { messageId } = call.request;
    const answer = taskOf(call);
    if (messageId === undefined || !answer) return [];
    const taskId = textAt(answer, 'id') ?? '';
    if (holders.get(messageId)?.includes(taskId) === true) return [];
    return [{ invariant: 'acknowledged', taskId, text: `${describe(call)}: its message ${messageId} is in no log` }];
  });
  return [...twice, ...lost];
}

/** A message that was only ever refused is in no log; and what a client has been shown is never said not to be there. */
function refusals({ calls, tasks }: History): Violation[] {
  const open = new Set(
    calls.filter(({ end }) => end?.how !== 'refused').flatMap(({ request }) => request.messageId ?? []),
  );
  return calls.flatMap((call): Violation[] => {
    const { taskId, messageId } = call.request;
    const task = taskId === undefined ? undefined : tasks.get(taskId);
    if (!task || call.end?.how !== 'refused') return [];
    const found = (text: string): Violation[] => [
      { invariant: 'acknowledged', taskId: task.row.taskId, text: `${describe(call)}: ${text}` },
    ];
    if (call.end.error?.startsWith('TaskNotFoundError')) return found('the task was said not to be there');
    const accepted = messageId !== undefined && !open.has(messageId) && task.log.messageIds().includes(messageId);
    return accepted ? found(`message ${messageId} was refused, and is in the log`) : [];
  });
}

/** A listing shows states that the tasks have been in. */
function listings({ calls, tasks }: History): Violation[] {
  return calls.flatMap((call) =>
    (call.answer?.listed ?? []).flatMap(({ taskId, state }): Violation[] => {
      const task: TaskHistory | undefined = tasks.get(taskId);
      if (task?.log.events.some((event) => event.state === state)) return [];
      const text = `${describe(call)}: it shows task ${taskId} as ${state}, which it never was`;
      return [{ invariant: 'acknowledged', ...(task && { taskId }), text }];
    }),
  );
}

function taskOf({ request, answer, events: [first] }: Call): Json | undefined {
  if (request.operation === 'send') return answer?.task;
  return request.operation === 'stream' ? objectAt(first?.event, 'task') : undefined;
}
