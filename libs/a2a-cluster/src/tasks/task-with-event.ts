import { applyEvent } from './apply-event.js';
import { SnapshotPace } from './snapshot-pace.js';
import type { TaskEvent } from './task-event.js';
import { encodeEvent, encodeTask } from './task-event.codec.js';
import type { AppendOptions, StoredTask } from './task-store.js';

/**
 * A task with one more event, and the texts to be stored: a snapshot too if the log has outgrown the last one. The given
 * task is consumed.
 */
export function withEvent(
  before: StoredTask,
  event: TaskEvent,
): { stored: StoredTask; stores: Pick<AppendOptions, 'texts' | 'snapshot'> } {
  const text = encodeEvent(event);
  const task = applyEvent(before.task, event);
  const pace = new SnapshotPace(before.length);
  const snapshot = pace.next(text.length, () => encodeTask(task));
  return {
    stored: { ...before, version: before.version + 1, task, length: pace.length },
    stores: { texts: [text], ...(snapshot !== undefined && { snapshot }) },
  };
}
