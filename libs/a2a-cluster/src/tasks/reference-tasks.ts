import type { Task } from '@a2a-js/sdk';
import { jsonSize } from './json-size.js';
import type { TaskScope, VersionedTaskStore } from './task-store.js';

/** How much a message may refer to. */
export interface ReferenceBounds {
  /** Bytes of JSON that these tasks hold together. */
  maxBytes: number;
  /** Told of the first task that does not fit any more: it may throw. Where it returns, that task is left out. */
  tooLarge: (taskId: string) => void;
}

/**
 * The tasks that a message refers to, each once, as far as its sender may see them; undefined where it refers to none.
 * They are read one after another, so that one message does not take all connections, and none that does not fit is
 * read.
 */
export async function referenceTasks(
  tasks: VersionedTaskStore,
  ids: readonly string[],
  scopeOf: (taskId: string) => TaskScope,
  { maxBytes, tooLarge }: ReferenceBounds,
): Promise<Task[] | undefined> {
  if (ids.length === 0) return undefined;
  const found: Task[] = [];
  let left = maxBytes;
  for (const id of new Set(ids)) {
    const stored = await tasks.findUpTo(scopeOf(id), left);
    if (!stored) continue;
    const size = 'task' in stored ? sizeOf(stored.task, stored.length) : Infinity;
    if ('task' in stored && size <= left) {
      found.push(stored.task);
      left -= size;
    } else {
      tooLarge(id);
    }
  }
  return found;
}

const sizeOf = (task: Task, length: { snapshot: number; tail: number } | undefined): number =>
  length ? length.snapshot + length.tail : jsonSize(task);
