import type { Task } from '@a2a-js/sdk';
import { jsonSize } from './json-size.js';
import type { TaskEvent } from './task-event.js';
import { encodeTask } from './task-event.codec.js';

/**
 * The head of a task is the task without its history and its artifacts: all that ListTasks shows where neither is asked
 * for, stored beside the snapshot so that the snapshot need not be read. A longer one is not kept twice: each status would
 * write it anew.
 */
const MAX_HEAD_CHARS = 16 * 1024;

/** Stands for a head that is not stored: the snapshot has to be read. */
export const NO_HEAD = '';

/** The head as JSON text, or {@link NO_HEAD}. */
export function headOf({ id, contextId, status, metadata }: Task): string {
  const head = { id, contextId, status, metadata, artifacts: [], history: [] };
  return jsonSize(head, MAX_HEAD_CHARS) < MAX_HEAD_CHARS ? encodeTask(head) : NO_HEAD;
}

/** Whether an event changes the head: most are chunks of artifacts, which do not. */
export function changesHead(event: TaskEvent): boolean {
  switch (event.kind) {
    case 'task':
    case 'statusUpdate':
      return true;
    case 'artifactUpdate':
      return event.artifactUpdate.metadata !== undefined;
    case 'taskMerge':
      return event.taskMerge.metadata !== undefined;
    case 'userMessage':
      return false;
  }
}
