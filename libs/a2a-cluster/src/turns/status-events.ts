import { randomUUID } from 'node:crypto';
import { type Message, Role, TaskState } from '@a2a-js/sdk';
import type { Metadata, TaskEvent } from '../tasks/task-event.js';

/** The ids of a status's task. */
export interface TaskIds {
  taskId: string;
  contextId: string;
}

/** A status that the cluster itself sets, saying why. */
export function statusEvent(ids: TaskIds, state: TaskState, text: string, metadata?: Metadata): TaskEvent {
  return statusWithMessage(ids, state, agentMessage(ids, text, metadata));
}

/** A status with a message of the agent's. */
export function statusWithMessage({ taskId, contextId }: TaskIds, state: TaskState, message: Message): TaskEvent {
  const status = { state, message, timestamp: new Date().toISOString() };
  return { kind: 'statusUpdate', statusUpdate: { taskId, contextId, status, metadata: undefined } };
}

export const failed = (ids: TaskIds, text: string, metadata?: Metadata): TaskEvent =>
  statusEvent(ids, TaskState.TASK_STATE_FAILED, text, metadata);

export const canceled = (ids: TaskIds): TaskEvent =>
  statusEvent(ids, TaskState.TASK_STATE_CANCELED, 'The task was canceled at the request of its client.');

function agentMessage({ taskId, contextId }: TaskIds, text: string, metadata: Metadata | undefined): Message {
  return {
    messageId: randomUUID(),
    contextId,
    taskId,
    role: Role.ROLE_AGENT,
    parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: 'text/plain' }],
    metadata,
    extensions: [],
    referenceTaskIds: [],
  };
}
