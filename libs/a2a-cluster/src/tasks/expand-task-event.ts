import { Artifact, type Message, type Task, TaskStatus } from '@a2a-js/sdk';
import type { Metadata, TaskEvent, VersionedTaskEvent } from './task-event.js';
import type { StoredTask } from './task-store.js';

/**
 * The first Task event of a new task, completed: it is stored with the message that began it.
 */
export function beginTask(task: Task, taskId: string, contextId: string, userMessage: Message): Task {
  return { ...task, id: taskId, contextId, history: withMessage(task.history, userMessage) };
}

/**
 * The updates that a later Task event amounts to. A2A allows one Task per stream, first; executors publish more. They are merged as
 * the SDK's ResultManager merges them and delivered as the status and artifact updates that make the difference. A Task
 * event that repeats the stored status sets none, so it ends nothing.
 */
export function expandTaskEvent(stored: Task, incoming: Task, userMessage?: Message): TaskEvent[] {
  const { id: taskId, contextId } = stored;
  const events: TaskEvent[] = [];
  const told = incoming.history.length > 0 ? incoming.history : stored.history;
  const merged = userMessage ? withMessage(told, userMessage) : told;
  const history = differs(stored.history, merged) ? merged : undefined;
  const statusChanged =
    incoming.status !== undefined &&
    (!stored.status ||
      JSON.stringify(TaskStatus.toJSON(stored.status)) !== JSON.stringify(TaskStatus.toJSON(incoming.status)));
  const metadata = newMetadata(stored.metadata, incoming.metadata);
  if (history || (metadata && !statusChanged)) {
    events.push({ kind: 'taskMerge', taskMerge: { ...(history && { history }), ...(metadata && { metadata }) } });
  }
  for (const artifact of incoming.artifacts) {
    if (isStored(stored, artifact)) continue;
    events.push({
      kind: 'artifactUpdate',
      artifactUpdate: { taskId, contextId, artifact, append: false, lastChunk: true, metadata: undefined },
    });
  }
  if (statusChanged) {
    events.push({
      kind: 'statusUpdate',
      statusUpdate: { taskId, contextId, status: incoming.status, metadata },
      fromTask: true,
    });
  }
  return events;
}

/**
 * The updates that bring a reader level with a task when the events it missed are no longer in the log. Only the last of
 * them brings it to the task's version: it is not level before.
 */
export function levelingEvents({ task, version }: StoredTask, fromVersion: number): VersionedTaskEvent[] {
  const { id: taskId, contextId } = task;
  const artifacts = task.artifacts.map((artifact): TaskEvent => ({
    kind: 'artifactUpdate',
    artifactUpdate: { taskId, contextId, artifact, append: false, lastChunk: false, metadata: undefined },
  }));
  const status: TaskEvent = {
    kind: 'statusUpdate',
    statusUpdate: { taskId, contextId, status: task.status, metadata: task.metadata },
  };
  return [
    ...artifacts.map((event) => ({ version: fromVersion, event, bytes: 0 })),
    { version, event: status, bytes: 0 },
  ];
}

const withMessage = (history: Message[], message: Message): Message[] =>
  history.some(({ messageId }) => messageId === message.messageId) ? history : [message, ...history];

const differs = (stored: Message[], incoming: Message[]): boolean =>
  stored.length !== incoming.length || stored.some(({ messageId }, at) => messageId !== incoming[at]?.messageId);

function isStored(task: Task, artifact: Artifact): boolean {
  const stored = task.artifacts.find(({ artifactId }) => artifactId === artifact.artifactId);
  return stored !== undefined && JSON.stringify(Artifact.toJSON(stored)) === JSON.stringify(Artifact.toJSON(artifact));
}

function newMetadata(stored: Metadata | undefined, incoming: Metadata | undefined): Metadata | undefined {
  if (!incoming) return undefined;
  const changed = Object.entries(incoming).some(
    ([key, value]) => !stored || !Object.hasOwn(stored, key) || JSON.stringify(stored[key]) !== JSON.stringify(value),
  );
  return changed || !stored ? incoming : undefined;
}
