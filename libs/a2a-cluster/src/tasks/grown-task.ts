import { applyEvent } from './apply-event.js';
import { hasOutgrown } from './stored-length.js';
import type { TaskEvent } from './task-event.js';
import { encodeEvent, encodeTask } from './task-event.codec.js';
import type { AppendOptions, StoredTask } from './task-store.js';

/**
 * A task with one more event, and what is stored of it: a snapshot too where the log has outgrown the last one. The task
 * given is consumed.
 */
export function grownBy(
  { length, ...before }: Required<StoredTask>,
  event: TaskEvent,
): { stored: StoredTask; stores: Pick<AppendOptions, 'texts' | 'snapshot'> } {
  const text = encodeEvent(event);
  const task = applyEvent(before.task, event);
  const tail = length.tail + text.length;
  const stored = { ...before, version: before.version + 1, task };
  if (!hasOutgrown({ ...length, tail })) {
    return { stored: { ...stored, length: { ...length, tail } }, stores: { texts: [text] } };
  }
  const snapshot = encodeTask(task);
  return {
    stored: { ...stored, length: { snapshot: snapshot.length, tail: 0 } },
    stores: { texts: [text], snapshot },
  };
}
