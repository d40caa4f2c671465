import type { Task } from '@a2a-js/sdk';
import type { TaskScope, VersionedTaskStore } from './task-store.js';

/** The tasks that a message refers to, as far as its sender may see them; undefined where it refers to none. */
export async function referenceTasks(
  tasks: VersionedTaskStore,
  ids: readonly string[],
  scopeOf: (taskId: string) => TaskScope,
): Promise<Task[] | undefined> {
  if (ids.length === 0) return undefined;
  const found = await Promise.all(ids.map((id) => tasks.find(scopeOf(id))));
  return found.filter((stored) => stored !== undefined).map(({ task }) => task);
}
