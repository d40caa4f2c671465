import type { AgentCard, ListTasksRequest, Message, SendMessageRequest, Task } from '@a2a-js/sdk';
import { TaskState } from '@a2a-js/sdk';
import { ContentTypeNotSupportedError, ExtensionSupportRequiredError, RequestMalformedError } from '@a2a-js/sdk/errors';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { RequestLimits } from '../options/request.options.js';

/** Ids are index keys: PostgreSQL takes no key of more than 2.7 kB, and several ids may stand in one. */
const MAX_ID_BYTES = 512;
const MAX_PAGE_SIZE = 100;
/** Extensions of one message: each is a URI that the agent's card names, and no card names as many. */
const MAX_EXTENSIONS = 100;

/** Refuses an id that is missing where it is needed, or that the database could not hold as it is. */
export function requireId(name: string, value: string | undefined): string {
  if (!value || (typeof value === 'string' && value.trim() === ''))
    throw new RequestMalformedError(`${name} is required.`);
  return checkId(name, value);
}

/** The same for an id that may be left out. */
export function checkId(name: string, value: string): string {
  // The SDK's codecs hand on some fields as they came.
  if (typeof value !== 'string') throw new RequestMalformedError(`${name} is not a string.`);
  const shown = JSON.stringify(value.slice(0, 60));
  if (value.includes('\0')) throw new RequestMalformedError(`${name} ${shown} contains a NUL character.`);
  if (/\p{Surrogate}/u.test(value)) throw new RequestMalformedError(`${name} ${shown} is not well-formed Unicode.`);
  if (Buffer.byteLength(value) > MAX_ID_BYTES) {
    throw new RequestMalformedError(`${name} ${shown}… is longer than ${MAX_ID_BYTES} bytes.`);
  }
  return value;
}

/** The message of a request, with ids that can be stored, and no more in its lists than a turn should have to hold. */
export function requireMessage({ message }: SendMessageRequest, limits: RequestLimits): Message {
  if (!message) throw new RequestMalformedError('message is required.');
  const { parts, extensions, referenceTaskIds } = message;
  const { maxParts, maxReferenceTasks } = limits;
  requireAtMost(maxParts, 'parts', parts.length);
  requireAtMost(MAX_EXTENSIONS, 'extensions', extensions.length);
  const references = new Set(referenceTaskIds);
  requireAtMost(maxReferenceTasks, 'different referenceTaskIds', references.size);
  requireId('message.messageId', message.messageId);
  if (message.contextId) requireId('message.contextId', message.contextId);
  if (message.taskId) requireId('message.taskId', message.taskId);
  for (const id of references) requireId('message.referenceTaskIds', id);
  return message;
}

function requireAtMost(limit: number, what: string, count: number): void {
  if (count > limit) throw new RequestMalformedError(`message has ${count} ${what}: it may have at most ${limit}.`);
}

/** Tenants and owners are keys too. */
export function checkScope(tenant: string, owner: string): void {
  checkId('tenant', tenant);
  checkId('the owner of the call', owner);
}

/** A client that does not know an extension which the card requires would misunderstand the agent. */
export function requireExtensions(card: Pick<AgentCard, 'capabilities'>, context: ServerCallContext): void {
  const offered = card.capabilities?.extensions ?? [];
  const requested = new Set(context.requestedExtensions ?? []);
  const missing = offered.filter(({ required, uri }) => required && !requested.has(uri)).map(({ uri }) => uri);
  if (missing.length > 0) {
    throw new ExtensionSupportRequiredError(`The agent requires these extensions: ${missing.join(', ')}.`);
  }
  if (context.requestedExtensions) {
    const known = new Set(offered.map(({ uri }) => uri));
    context.setRequestedExtensions(context.requestedExtensions.filter((uri) => known.has(uri)));
  }
}

/** Refuses parts in a media type that the card does not name (option `validateInputModes`). */
export function requireInputModes(card: Pick<AgentCard, 'defaultInputModes'>, message: Message): void {
  const modes = card.defaultInputModes;
  if (modes.length === 0) return;
  const odd = message.parts.find(({ mediaType }) => mediaType && !modes.includes(mediaType));
  if (odd) {
    throw new ContentTypeNotSupportedError(`Media type ${odd.mediaType} is not one of ${modes.join(', ')}.`);
  }
}

/** ListTasks' own bounds. */
export function checkListTasks({ pageSize, status, statusTimestampAfter, contextId }: ListTasksRequest): void {
  if (pageSize !== undefined && (!Number.isInteger(pageSize) || pageSize < 1 || pageSize > MAX_PAGE_SIZE)) {
    throw new RequestMalformedError(`pageSize is ${pageSize}: it must be a whole number from 1 to ${MAX_PAGE_SIZE}.`);
  }
  if (status !== undefined && (TaskState[status] === undefined || status === TaskState.UNRECOGNIZED)) {
    throw new RequestMalformedError(`status ${String(status)} is not a task state.`);
  }
  if (statusTimestampAfter && !isTime(statusTimestampAfter)) {
    throw new RequestMalformedError(`statusTimestampAfter ${statusTimestampAfter} is not an ISO 8601 time.`);
  }
  if (contextId) checkId('contextId', contextId);
}

/** ISO 8601 with a year of four digits, and a time that there is: JavaScript alone takes much else for one. */
const isTime = (text: string): boolean =>
  /^\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?)?)?$/i.test(text) &&
  !Number.isNaN(Date.parse(text));

/** At most this many of the newest messages; all where no number is given. */
export function withHistory(task: Task, historyLength: number | undefined): Task {
  if (historyLength === undefined) return task;
  return { ...task, history: historyLength <= 0 ? [] : task.history.slice(-historyLength) };
}
