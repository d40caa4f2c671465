import { Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from '@a2a-js/sdk';
import type { Metadata, TaskEvent } from './task-event.js';

/** Texts of events that were copied: they are stored as they were copied, without a second serialization. */
const texts = new WeakMap<TaskEvent, string>();

/** A deep copy of an event, which nobody else holds, and the size of its JSON. */
export function copyEvent(event: TaskEvent): { event: TaskEvent; bytes: number } {
  const text = serialize(event);
  const copy = decodeEvent(text);
  texts.set(copy, text);
  return { event: copy, bytes: text.length };
}

/**
 * An event as JSON text. Text, not jsonb: it holds what the protocol allows and jsonb refuses (escaped NULs, lone
 * surrogates), and the SDK's toJSON keeps raw parts, which a plain JSON.stringify corrupts.
 */
export function encodeEvent(event: TaskEvent): string {
  return texts.get(event) ?? serialize(event);
}

function serialize(event: TaskEvent): string {
  switch (event.kind) {
    case 'task':
      return JSON.stringify({ task: Task.toJSON(event.task) });
    case 'statusUpdate':
      return JSON.stringify({
        statusUpdate: TaskStatusUpdateEvent.toJSON(event.statusUpdate),
        ...(event.fromTask && { fromTask: true }),
      });
    case 'artifactUpdate':
      return JSON.stringify({
        artifactUpdate: TaskArtifactUpdateEvent.toJSON(event.artifactUpdate),
        ...(event.keptParts !== undefined && { keptParts: event.keptParts }),
      });
    case 'userMessage':
      return JSON.stringify({ userMessage: Message.toJSON(event.userMessage) });
    case 'taskMerge': {
      const { history, metadata } = event.taskMerge;
      return JSON.stringify({ taskMerge: { history: history?.map((message) => Message.toJSON(message)), metadata } });
    }
  }
}

/** The event behind its JSON text: always a fresh object that nobody else holds. */
export function decodeEvent(text: string): TaskEvent {
  const stored = JSON.parse(text) as Record<string, unknown>;
  if (stored.statusUpdate) {
    return {
      kind: 'statusUpdate',
      statusUpdate: TaskStatusUpdateEvent.fromJSON(stored.statusUpdate),
      ...(stored.fromTask === true && { fromTask: true }),
    };
  }
  if (stored.artifactUpdate) {
    return {
      kind: 'artifactUpdate',
      artifactUpdate: TaskArtifactUpdateEvent.fromJSON(stored.artifactUpdate),
      ...(typeof stored.keptParts === 'number' && { keptParts: stored.keptParts }),
    };
  }
  if (stored.task) return { kind: 'task', task: Task.fromJSON(stored.task) };
  if (stored.userMessage) return { kind: 'userMessage', userMessage: Message.fromJSON(stored.userMessage) };
  if (stored.taskMerge) {
    const { history, metadata } = stored.taskMerge as { history?: unknown[]; metadata?: Metadata };
    return {
      kind: 'taskMerge',
      taskMerge: {
        ...(history && { history: history.map((message) => Message.fromJSON(message)) }),
        ...(metadata && { metadata }),
      },
    };
  }
  throw new Error(`The event log holds an event of no known kind: ${text.slice(0, 100)}`);
}

/** A task as JSON text: the form of the snapshot column. */
export const encodeTask = (task: Task): string => JSON.stringify(Task.toJSON(task));

export const decodeTask = (text: string): Task => Task.fromJSON(JSON.parse(text));

/** A deep copy. Not structuredClone: that turns the Buffers of raw parts into Uint8Arrays. */
export const copyTask = (task: Task): Task => Task.fromJSON(JSON.parse(encodeTask(task)));

export const copyMessage = (message: Message): Message =>
  Message.fromJSON(JSON.parse(JSON.stringify(Message.toJSON(message))));
