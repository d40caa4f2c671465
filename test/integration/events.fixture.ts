import { randomUUID } from 'node:crypto';
import { type Message, type Part, Role, type Task, TaskState, taskStateToJSON } from '@a2a-js/sdk';
import type { Metadata, TaskEvent } from '../../libs/a2a-cluster/src/tasks/task-event.js';
import type { TaskScope } from '../../libs/a2a-cluster/src/tasks/task-store.js';

export const WORKING = TaskState.TASK_STATE_WORKING;
export const INPUT_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED;
export const AUTH_REQUIRED = TaskState.TASK_STATE_AUTH_REQUIRED;
export const COMPLETED = TaskState.TASK_STATE_COMPLETED;
export const FAILED = TaskState.TASK_STATE_FAILED;
export const CANCELED = TaskState.TASK_STATE_CANCELED;

export const textPart = (value: string): Part => ({
  content: { $case: 'text', value },
  metadata: undefined,
  filename: '',
  mediaType: 'text/plain',
});

export function message(text = 'go on', messageId: string = randomUUID(), role: Role = Role.ROLE_USER): Message {
  const parts = [textPart(text)];
  return {
    messageId,
    contextId: '',
    taskId: '',
    role,
    parts,
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}

/** The task that a scope names, as an executor would publish it first. */
export function taskOf({ taskId }: TaskScope, task: Partial<Task> = {}): Task {
  return {
    id: taskId,
    contextId: `context of ${taskId}`,
    artifacts: [],
    history: [],
    metadata: undefined,
    status: { state: WORKING, message: undefined, timestamp: '2030-01-01T00:00:00.000Z' },
    ...task,
  };
}

export const taskEvent = (scope: TaskScope, task?: Partial<Task>): TaskEvent => ({
  kind: 'task',
  task: taskOf(scope, task),
});

export const inState = (state: TaskState): Pick<Task, 'status'> => ({
  status: { state, message: undefined, timestamp: '2030-01-01T00:00:00.000Z' },
});

export function status({ taskId }: TaskScope, state: TaskState, text?: string): TaskEvent {
  const said = text === undefined ? undefined : message(text, `says-${text}`, Role.ROLE_AGENT);
  const timestamp = new Date().toISOString();
  return {
    kind: 'statusUpdate',
    statusUpdate: {
      taskId,
      contextId: `context of ${taskId}`,
      metadata: undefined,
      status: { state, message: said, timestamp },
    },
  };
}

export function artifact({ taskId }: TaskScope, artifactId: string, text = 'content', append = false): TaskEvent {
  return {
    kind: 'artifactUpdate',
    artifactUpdate: {
      taskId,
      contextId: `context of ${taskId}`,
      append,
      lastChunk: false,
      metadata: undefined,
      artifact: {
        artifactId,
        name: '',
        description: '',
        parts: [textPart(text)],
        metadata: undefined,
        extensions: [],
      },
    },
  };
}

export const merge = (metadata: Metadata): TaskEvent => ({ kind: 'taskMerge', taskMerge: { metadata } });

/** An event in a few words, for comparisons: `task WORKING`, `status COMPLETED`, `artifact a1`, `userMessage go on`. */
export function summaryOf(event: TaskEvent): string {
  switch (event.kind) {
    case 'task':
      return `task ${nameOf(event.task.status?.state)}`;
    case 'statusUpdate':
      return `status ${nameOf(event.statusUpdate.status?.state)}`;
    case 'artifactUpdate':
      return `artifact ${event.artifactUpdate.artifact?.artifactId ?? ''}`;
    case 'userMessage':
      return `userMessage ${textOf(event.userMessage)}`;
    case 'taskMerge':
      return 'taskMerge';
  }
}

export const nameOf = (state: TaskState | undefined): string =>
  state === undefined ? 'none' : taskStateToJSON(state).replace('TASK_STATE_', '');

/** The text of a message or of an artifact. */
export const textOf = ({ parts }: { parts: Part[] }): string =>
  parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('');

/** The texts of a task's artifacts by their ids. */
export const artifactsOf = (task: Task | undefined): Record<string, string> =>
  Object.fromEntries((task?.artifacts ?? []).map((it) => [it.artifactId, textOf(it)]));
