import { Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from '@a2a-js/sdk';
import { turnOfTheLoop } from '../async/turn-of-the-loop.js';
import type { Metadata, TaskEvent } from './task-event.js';

/** An event as JSON. */
interface EventJson {
  task?: unknown;
  statusUpdate?: unknown;
  artifactUpdate?: unknown;
  userMessage?: unknown;
  taskMerge?: unknown;
  fromTask?: unknown;
  keptParts?: unknown;
}

/** A deep copy of an event, which nobody else holds, and its JSON text. */
export function copyEvent(event: TaskEvent): { event: TaskEvent; text: string } {
  const json = toJson(event);
  const text = JSON.stringify(json);
  return { event: fromJson(isOwn(json) ? json : (JSON.parse(text) as EventJson)), text };
}

/**
 * An event as JSON text. Text, not jsonb: it holds what the protocol allows and jsonb refuses (escaped NULs, lone
 * surrogates), and the SDK's toJSON keeps raw parts, which a plain JSON.stringify corrupts.
 */
export const encodeEvent = (event: TaskEvent): string => JSON.stringify(toJson(event));

/** The event behind its JSON text: always a fresh object that nobody else holds. */
export const decodeEvent = (text: string): TaskEvent => fromJson(JSON.parse(text) as EventJson);

/** The events of a JSON array of such texts. */
export const decodeEvents = (text: string): TaskEvent[] => (JSON.parse(text) as EventJson[]).map(fromJson);

/**
 * Whether this JSON shares no object with the event and reads back the same, so that it need not be copied. The SDK makes
 * new objects of an event, except for metadata and data parts, which it takes as they are.
 */
function isOwn(json: unknown): boolean {
  if (typeof json !== 'object') return typeof json === 'string' || typeof json === 'boolean' || json === undefined;
  if (json === null) return false;
  const prototype: unknown = Object.getPrototypeOf(json);
  // No every(): it passes over holes, which JSON makes null, as it does undefined.
  if (prototype === Array.prototype) {
    for (const item of json as unknown[]) if (item === undefined || !isOwn(item)) return false;
    return true;
  }
  // The toJSON of an object may stand in its prototype.
  if (prototype !== Object.prototype) return false;
  const held = json as Record<string, unknown>;
  for (const key in held) {
    if (key === 'metadata' || key === 'data' || !isOwn(held[key])) return false;
    if (key === 'text') held.text = ownText(held.text as string);
  }
  return true;
}

/** V8 copies shorter slices by itself. */
const MIN_SLICE = 13;

/** The same text in memory of its own: a slice keeps alive what it was cut from, which may be the answer of a model. */
function ownText(text: string): string {
  if (text.length < MIN_SLICE) return text;
  const quoted = JSON.stringify(text);
  return quoted.length === text.length + 2 ? quoted.slice(1, -1) : (JSON.parse(quoted) as string);
}

function toJson(event: TaskEvent): EventJson {
  switch (event.kind) {
    case 'task':
      return { task: Task.toJSON(event.task) };
    case 'statusUpdate':
      return {
        statusUpdate: TaskStatusUpdateEvent.toJSON(event.statusUpdate),
        ...(event.fromTask && { fromTask: true }),
      };
    case 'artifactUpdate':
      return {
        artifactUpdate: TaskArtifactUpdateEvent.toJSON(event.artifactUpdate),
        ...(event.keptParts !== undefined && { keptParts: event.keptParts }),
      };
    case 'userMessage':
      return { userMessage: Message.toJSON(event.userMessage) };
    case 'taskMerge': {
      const { history, metadata } = event.taskMerge;
      return { taskMerge: { history: history?.map((message) => Message.toJSON(message)), metadata } };
    }
  }
}

function fromJson(stored: EventJson): TaskEvent {
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
  throw new Error(`The event log holds an event of no known kind: ${JSON.stringify(stored).slice(0, 100)}`);
}

/** A task as JSON text: the form of the snapshot column. */
export const encodeTask = (task: Task): string => JSON.stringify(Task.toJSON(task));

export const decodeTask = (text: string): Task => Task.fromJSON(JSON.parse(text));

/** The same of a large task: the event loop has a turn between the steps. */
export async function encodeTaskInTurns(task: Task): Promise<string> {
  const json = Task.toJSON(task);
  await turnOfTheLoop();
  return JSON.stringify(json);
}

/** And back. */
export async function decodeTaskInTurns(text: string): Promise<Task> {
  const json: unknown = JSON.parse(text);
  await turnOfTheLoop();
  return Task.fromJSON(json);
}

/** A deep copy. Not structuredClone: that turns the Buffers of raw parts into Uint8Arrays. */
export const copyTask = (task: Task): Task => Task.fromJSON(JSON.parse(encodeTask(task)));

export const copyMessage = (message: Message): Message =>
  Message.fromJSON(JSON.parse(JSON.stringify(Message.toJSON(message))));
