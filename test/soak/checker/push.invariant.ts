import type { PushLine } from '../recording.js';
import type { History, TaskHistory } from './history.js';
import { numberAt, textAt } from './json.js';
import { toldText } from './task-log.js';
import type { Violation } from './violation.js';

/**
 * Every push receiver was told every event from its registration on, in order: again, perhaps, but none before the one
 * ahead of it was taken; and in the end all of them.
 */
export function push(history: History): Violation[] {
  const posts = new Map<string, PushLine[]>();
  for (const line of history.lines) {
    if (line.kind === 'push') posts.set(line.configId, [...(posts.get(line.configId) ?? []), line]);
  }
  return history.dump.pushConfigs.flatMap(({ taskNo, configId, failed }): Violation[] => {
    const task = history.byNo.get(taskNo);
    if (!task) return [{ invariant: 'push', text: `receiver ${configId} is of a task that is not there` }];
    const found = (text: string): Violation[] => [
      { invariant: 'push', taskId: task.row.taskId, text: `receiver ${configId}: ${text}` },
    ];
    if (failed !== null) return found(`it was given up: ${failed}`);
    const wrong = misdelivery(task, registeredAt(task, configId), posts.get(configId) ?? []);
    return wrong === undefined ? [] : found(wrong);
  });
}

function misdelivery({ log }: TaskHistory, from: number, posts: readonly PushLine[]): string | undefined {
  const expected = log.toldAfter(from);
  const positions = new Map(expected.map(({ told }, at) => [told, at]));
  let taken = -1;
  for (const { event, status } of posts) {
    const at = positions.get(toldText(event) ?? '');
    if (at === undefined) return `it was told ${Object.keys(event).join()}, which is not in the log after ${from}`;
    const version = expected[at]?.version;
    if (at > taken + 1) return `it was told event ${version} before event ${expected[taken + 1]?.version} was taken`;
    if (status < 300) taken = Math.max(taken, at);
  }
  const missing = expected[taken + 1];
  return missing === undefined ? undefined : `it was never told event ${missing.version}`;
}

/** The version that it is told from: what the triggers wrote down when it was registered. */
function registeredAt({ audit }: TaskHistory, configId: string): number {
  const registration = audit.find(
    ({ source, op, after }) =>
      source === 'push' && op === 'insert' && textAt(after ?? undefined, 'configId') === configId,
  );
  return numberAt(registration?.after ?? undefined, 'delivered') ?? 0;
}
