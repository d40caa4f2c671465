import { randomUUID } from 'node:crypto';
import { type Artifact, type Message, type Part, Role, type Task, TaskState } from '@a2a-js/sdk';
import { AgentEvent, type ExecutionEventBus } from '@a2a-js/sdk/server';
import type { Turn } from 'nestjs-a2a-cluster';

/** The task that an event is for: a request context will do. */
export interface TaskRef {
  taskId: string;
  contextId: string;
}

export const textPart = (value: string): Part => ({
  content: { $case: 'text', value },
  metadata: undefined,
  filename: '',
  mediaType: 'text/plain',
});

export const rawPart = (value: Buffer): Part => ({
  content: { $case: 'raw', value },
  metadata: undefined,
  filename: 'bytes.bin',
  mediaType: 'application/octet-stream',
});

export function agentMessage({ taskId, contextId }: TaskRef, text: string, parts = [textPart(text)]): Message {
  return {
    messageId: randomUUID(),
    taskId,
    contextId,
    role: Role.ROLE_AGENT,
    parts,
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}

export function artifactOf(artifactId: string, ...parts: Part[]): Artifact {
  return { artifactId, name: '', description: '', parts, metadata: undefined, extensions: [] };
}

export function taskOf(ref: TaskRef, state: TaskState, more: Partial<Task> = {}): Task {
  return {
    id: ref.taskId,
    contextId: ref.contextId,
    status: { state, message: undefined, timestamp: undefined },
    artifacts: [],
    history: [],
    metadata: undefined,
    ...more,
  };
}

export function publishTask(bus: ExecutionEventBus, ref: TaskRef, state: TaskState, more?: Partial<Task>): void {
  bus.publish(AgentEvent.task(taskOf(ref, state, more)));
}

export function publishStatus(bus: ExecutionEventBus, ref: TaskRef, state: TaskState, text?: string): void {
  const message = text === undefined ? undefined : agentMessage(ref, text);
  const { taskId, contextId } = ref;
  bus.publish(
    AgentEvent.statusUpdate({
      taskId,
      contextId,
      status: { state, message, timestamp: undefined },
      metadata: undefined,
    }),
  );
}

export function publishArtifact(
  bus: ExecutionEventBus,
  { taskId, contextId }: TaskRef,
  artifact: Artifact,
  append = false,
): void {
  bus.publish(
    AgentEvent.artifactUpdate({ taskId, contextId, artifact, append, lastChunk: false, metadata: undefined }),
  );
}

export const working = (bus: ExecutionEventBus, ref: TaskRef): void =>
  publishStatus(bus, ref, TaskState.TASK_STATE_WORKING);

export const completed = (bus: ExecutionEventBus, ref: TaskRef, text?: string): void =>
  publishStatus(bus, ref, TaskState.TASK_STATE_COMPLETED, text);

export const inputRequired = (bus: ExecutionEventBus, ref: TaskRef, text?: string): void =>
  publishStatus(bus, ref, TaskState.TASK_STATE_INPUT_REQUIRED, text);

/** Resolves with the reason once the turn's signal aborts. */
export const aborted = ({ signal }: Turn): Promise<unknown> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason)));

/** The text of a message's first part. */
export function textOf(message: Message | undefined): string {
  const content = message?.parts[0]?.content;
  return content?.$case === 'text' ? content.value : '';
}
