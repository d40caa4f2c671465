import type { Artifact, Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from '@a2a-js/sdk';
import { isTerminal, stateOf } from './task-states.js';
import type { Metadata, TaskEvent } from './task-event.js';

/** Later chunks are pushed onto the list of parts, which therefore must not be the one that the event holds. */
const ownParts = (artifact: Artifact): Artifact => ({ ...artifact, parts: [...artifact.parts] });

/**
 * Folds one event of the log into a task, as the SDK's ResultManager would. It does no I/O and reads no clock, so the
 * same log always gives the same task. The task given is consumed: it is changed in place and returned, which keeps a
 * stream of n chunks at O(n). The event is not changed, then or later; the task may hold parts of it.
 *
 * The first terminal state wins: once it is reached, no event of any kind changes the task.
 */
export function applyEvent(task: Task | undefined, event: TaskEvent): Task {
  if (event.kind === 'task') {
    if (task) throw new Error(`Task ${task.id} began twice in its event log.`);
    const { artifacts, history } = event.task;
    return { ...event.task, artifacts: artifacts.map(ownParts), history: [...history] };
  }
  if (!task) throw new Error(`The event log begins with a ${event.kind}, not with its task.`);
  if (isTerminal(stateOf(task))) return task;
  switch (event.kind) {
    case 'statusUpdate':
      applyStatus(task, event.statusUpdate, event.fromTask === true);
      break;
    case 'artifactUpdate':
      applyArtifact(task, event.artifactUpdate);
      break;
    case 'userMessage':
      // Also under the id of an earlier one: it has other content, or comes long after, and was accepted.
      task.history.push(event.userMessage);
      break;
    case 'taskMerge':
      if (event.taskMerge.history) task.history = [...event.taskMerge.history];
      mergeMetadata(task, event.taskMerge.metadata);
      break;
  }
  return task;
}

function applyStatus(task: Task, update: TaskStatusUpdateEvent, fromTask: boolean): void {
  task.status = update.status;
  mergeMetadata(task, update.metadata);
  if (update.status?.message && !fromTask) appendToHistory(task, update.status.message);
}

function applyArtifact(task: Task, update: TaskArtifactUpdateEvent): void {
  const incoming = update.artifact;
  if (!incoming) return;
  const at = task.artifacts.findIndex(({ artifactId }) => artifactId === incoming.artifactId);
  const existing = task.artifacts[at];
  if (!existing) task.artifacts.push(ownParts(incoming));
  else if (update.append) appendToArtifact(existing, incoming);
  else task.artifacts[at] = ownParts(incoming);
  mergeMetadata(task, update.metadata);
}

function appendToArtifact(existing: Artifact, incoming: Artifact): void {
  for (const part of incoming.parts) existing.parts.push(part);
  if (incoming.description) existing.description = incoming.description;
  if (incoming.name) existing.name = incoming.name;
  if (incoming.metadata) existing.metadata = { ...existing.metadata, ...incoming.metadata };
}

function appendToHistory(task: Task, message: Message): void {
  if (!task.history.some(({ messageId }) => messageId === message.messageId)) task.history.push(message);
}

function mergeMetadata(task: Task, metadata: Metadata | undefined): void {
  if (metadata) task.metadata = { ...task.metadata, ...metadata };
}
