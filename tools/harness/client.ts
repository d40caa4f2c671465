import { randomUUID } from 'node:crypto';
import { type Message, Role, type SendMessageConfiguration, type StreamResponse, type Task } from '@a2a-js/sdk';
import {
  type Client,
  ClientFactory,
  createAuthenticatingFetchWithRetry,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { A2AError } from '@a2a-js/sdk/errors';
import { textPart } from './text.js';

export interface ClientOptions {
  /** The transport it speaks, and no other. Default JSONRPC. */
  transport?: 'JSONRPC' | 'HTTP+JSON' | 'GRPC';
  /** Name of the caller, sent as `Authorization: Bearer NAME`. Default: anonymous. */
  user?: string;
}

/** The SDK's own client of the agent whose card is served under `url`. */
export async function clientFor(url: string, { transport = 'JSONRPC', user }: ClientOptions = {}): Promise<Client> {
  if (transport === 'GRPC') return (await import('./grpc-client.js')).grpcClientFor(url, { user });
  const fetchImpl = user === undefined ? fetch : fetchAs(user);
  const factory = transport === 'JSONRPC' ? JsonRpcTransportFactory : RestTransportFactory;
  return new ClientFactory({ transports: [new factory({ fetchImpl })] }).createFromUrl(url);
}

/** Sends `Authorization: Bearer NAME` along. */
export function fetchAs(user: string): typeof fetch {
  return createAuthenticatingFetchWithRetry(fetch, {
    headers: () => Promise.resolve({ Authorization: `Bearer ${user}` }),
    shouldRetryWithHeaders: () => Promise.resolve(undefined),
  });
}

/** What a message may carry besides its text. */
export interface MessageOptions {
  /** Of the task it continues. */
  taskId?: string;
  contextId?: string;
  /** Default: a new UUID. */
  messageId?: string;
}

export interface SendOptions extends MessageOptions {
  configuration?: Partial<SendMessageConfiguration>;
  /** Disconnects the sender. */
  signal?: AbortSignal;
}

/** A user's text message: to the scripted agent one command a line. */
export function userMessage(text: string, options: MessageOptions = {}): Message {
  return {
    messageId: options.messageId ?? randomUUID(),
    taskId: options.taskId ?? '',
    contextId: options.contextId ?? '',
    role: Role.ROLE_USER,
    parts: [textPart(text)],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}

/** Sends a text and waits until its task is terminal or interrupted (or as the configuration says). */
export async function send(client: Client, text: string, options: SendOptions = {}): Promise<Task> {
  const result = await client.sendMessage(requestOf(text, options), requestOptionsOf(options));
  if ('messageId' in result) throw new Error('The agent answered with a message, not with a task');
  return result;
}

/** Sends a text that the agent answers with a message, without a task. */
export async function sendForMessage(client: Client, text: string, options: SendOptions = {}): Promise<Message> {
  const result = await client.sendMessage(requestOf(text, options), requestOptionsOf(options));
  if ('messageId' in result) return result;
  throw new Error(`The agent answered with task ${result.id}, not with a message`);
}

/** Sends a text and streams the answer. Nothing is sent before the first `next()`; `Recording.of` calls it. */
export function stream(client: Client, text: string, options: SendOptions = {}): AsyncGenerator<StreamResponse, void> {
  return client.sendMessageStream(requestOf(text, options), requestOptionsOf(options));
}

/** Subscribes to a task, from the first `next()` on. */
export function subscribe(client: Client, taskId: string, signal?: AbortSignal): AsyncGenerator<StreamResponse, void> {
  return client.resubscribeTask({ tenant: '', id: taskId }, requestOptionsOf({ signal }));
}

export function getTask(client: Client, taskId: string, historyLength?: number): Promise<Task> {
  return client.getTask({ tenant: '', id: taskId, historyLength });
}

export function cancel(client: Client, taskId: string): Promise<Task> {
  return client.cancelTask({ tenant: '', id: taskId, metadata: undefined });
}

/** Everything a stream yields, once it has ended. */
export async function collect(responses: AsyncIterable<StreamResponse>): Promise<StreamResponse[]> {
  const all: StreamResponse[] = [];
  for await (const response of responses) all.push(response);
  return all;
}

/**
 * The A2A error that a call or a stream ends with. On a JSON-RPC stream the SDK wraps it, as the cause of another.
 *
 * @throws {Error} when it does not fail
 * @throws what it failed with when that is no A2A error
 */
export async function errorOf(outcome: Promise<unknown> | AsyncIterable<StreamResponse>): Promise<A2AError> {
  let value: unknown;
  try {
    value = await (Symbol.asyncIterator in outcome ? collect(outcome) : outcome);
  } catch (error) {
    for (let it: unknown = error; it instanceof Error; it = it.cause) if (it instanceof A2AError) return it;
    throw error;
  }
  throw new Error(`Expected an A2A error, got ${JSON.stringify(value)}`);
}

/** Name of that error, such as `TaskNotFoundError`: the same on both transports. */
export async function errorName(outcome: Promise<unknown> | AsyncIterable<StreamResponse>): Promise<string> {
  return (await errorOf(outcome)).name;
}

/** Reason of that error as on the wire, such as `TASK_NOT_FOUND`. */
export async function errorReason(outcome: Promise<unknown> | AsyncIterable<StreamResponse>): Promise<string> {
  return (await errorOf(outcome)).reason;
}

function requestOf(text: string, { configuration, ...message }: SendOptions): Parameters<Client['sendMessage']>[0] {
  return {
    tenant: '',
    message: userMessage(text, message),
    configuration: {
      acceptedOutputModes: [],
      taskPushNotificationConfig: undefined,
      returnImmediately: false,
      ...configuration,
    },
    metadata: undefined,
  };
}

function requestOptionsOf({ signal }: { signal?: AbortSignal | undefined }): { signal?: AbortSignal } {
  return signal ? { signal } : {};
}
