import type { Message, StreamResponse, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from '@a2a-js/sdk';
import { TaskState } from '@a2a-js/sdk';
import { LARGE_BYTES } from './json-size.js';
import { isTerminal } from './task-states.js';

/** The `metadata` that an executor gave a task or an event. */
export type Metadata = Record<string, unknown>;

/** One entry of a task's event log. */
export type TaskEvent =
  /** The task as it began: version 1 and no other. */
  | { kind: 'task'; task: Task }
  /** `fromTask`: it was part of a Task event, whose status message the SDK's ResultManager keeps out of the history. */
  | { kind: 'statusUpdate'; statusUpdate: TaskStatusUpdateEvent; fromTask?: true }
  /** `keptParts`: a replacement by a turn that is run again, whose first parts are from before that turn. */
  | { kind: 'artifactUpdate'; artifactUpdate: TaskArtifactUpdateEvent; keptParts?: number }
  /** The message of a follow-up: part of the history, delivered to no subscriber (it would end their streams). */
  | { kind: 'userMessage'; userMessage: Message }
  /** The changes of a later Task event beyond status and artifacts. No update of the protocol can carry them. */
  | { kind: 'taskMerge'; taskMerge: { history?: Message[]; metadata?: Metadata } };

/** A stored event and its place in the log. */
export interface VersionedTaskEvent {
  version: number;
  event: TaskEvent;
  /** Size of its JSON, by which buffers are bounded. */
  bytes: number;
}

/** A page of the log holds no more than its last event beyond these bytes: what is read is held in memory. */
export const PAGE_BYTES = 1024 * 1024;

/** Whether there may be more events behind a page. */
export const isFullPage = (page: readonly VersionedTaskEvent[], limit: number): boolean =>
  page.length >= limit || page.reduce((sum, { bytes }) => sum + bytes, 0) >= PAGE_BYTES;

/** The response that subscribers get for an event; undefined if they get none. */
export function toStreamResponse(event: TaskEvent): StreamResponse | undefined {
  switch (event.kind) {
    case 'task':
      return { payload: { $case: 'task', value: event.task } };
    case 'statusUpdate':
      return { payload: { $case: 'statusUpdate', value: event.statusUpdate } };
    case 'artifactUpdate':
      return { payload: { $case: 'artifactUpdate', value: event.artifactUpdate } };
    default:
      return undefined;
  }
}

const EVENTS = Symbol('events');
const EVENT = Symbol('event');

/** Things made of events, which know what they were made of: by it what is held for readers is measured. */
export type EventBatch<T> = readonly T[] & { [EVENTS]?: readonly VersionedTaskEvent[] };

/** The responses that subscribers get for these events. */
export function toStreamResponses(events: readonly VersionedTaskEvent[]): StreamResponse[] {
  const responses: StreamResponse[] & { [EVENTS]?: readonly VersionedTaskEvent[] } = [];
  for (const versioned of events) {
    const response: (StreamResponse & { [EVENT]?: VersionedTaskEvent }) | undefined = toStreamResponse(versioned.event);
    if (!response) continue;
    if (versioned.bytes > LARGE_BYTES) response[EVENT] = versioned;
    responses.push(response);
  }
  responses[EVENTS] = events;
  return responses;
}

/** The events that a batch was made of. */
export const eventsOf = (batch: EventBatch<unknown>): readonly VersionedTaskEvent[] | undefined => batch[EVENTS];

/** The event that a response tells of, where it is a large one. */
export const largeEventOf = (response: StreamResponse): VersionedTaskEvent | undefined =>
  (response as { [EVENT]?: VersionedTaskEvent })[EVENT];

/** Whether an event ends its task. After it there is nothing. */
export const endsTask = ({ event }: VersionedTaskEvent): boolean => isTerminal(stateSetBy(event) ?? 0);

/** These events as far as the one that ends their task. */
export function upToEnd(events: readonly VersionedTaskEvent[]): readonly VersionedTaskEvent[] {
  const end = events.findIndex(endsTask);
  return end < 0 ? events : events.slice(0, end + 1);
}

/** The state that an event sets; undefined for one that sets none. Only a status event can end a turn or a stream. */
export function stateSetBy(event: TaskEvent): TaskState | undefined {
  if (event.kind === 'task') return event.task.status?.state ?? TaskState.TASK_STATE_UNSPECIFIED;
  return event.kind === 'statusUpdate' ? event.statusUpdate.status?.state : undefined;
}
