import { randomUUID } from 'node:crypto';
import type { Transport } from '../e2e/raw-requests.js';
import { WireStream } from './wire.stream.js';
import type { WireMessage, WireParams, WireTask } from './wire.types.js';

/** How the HTTP+JSON binding puts an operation: the parameters that its path and query take stand in it. */
const ROUTES: Record<string, { method: 'GET' | 'POST' | 'DELETE'; path: string }> = {
  SendMessage: { method: 'POST', path: '/message:send' },
  SendStreamingMessage: { method: 'POST', path: '/message:stream' },
  GetTask: { method: 'GET', path: '/tasks/{id}' },
  ListTasks: { method: 'GET', path: '/tasks' },
  CancelTask: { method: 'POST', path: '/tasks/{id}:cancel' },
  SubscribeToTask: { method: 'POST', path: '/tasks/{id}:subscribe' },
  CreateTaskPushNotificationConfig: { method: 'POST', path: '/tasks/{taskId}/pushNotificationConfigs' },
  GetTaskPushNotificationConfig: { method: 'GET', path: '/tasks/{taskId}/pushNotificationConfigs/{id}' },
  ListTaskPushNotificationConfigs: { method: 'GET', path: '/tasks/{taskId}/pushNotificationConfigs' },
  DeleteTaskPushNotificationConfig: { method: 'DELETE', path: '/tasks/{taskId}/pushNotificationConfigs/{id}' },
  GetExtendedAgentCard: { method: 'GET', path: '/extendedAgentCard' },
};

/** An error as both bindings amount to it. */
export interface WireError {
  /** JSON-RPC's code, or HTTP's. */
  code: number;
  message: string;
  /** What A2A adds to the error: the entries of `data`, or of `details`. */
  details: { '@type'?: string; reason?: string; domain?: string }[];
  /** Of the `ErrorInfo` among the details. */
  reason: string | undefined;
}

export interface WireAnswer<Result = unknown> {
  status: number;
  headers: Headers;
  /** The body as it came. */
  body: unknown;
  /** @throws where the operation failed */
  readonly result: Result;
  error: WireError | undefined;
}

/** The one client of these tests: it shows what goes over the wire, and hides nothing but the binding. */
export class WireClient {
  constructor(
    private readonly baseUrl: string,
    readonly transport: Transport,
    private readonly headers: Record<string, string> = {},
  ) {}

  /** The same client with these headers on top. */
  with(headers: Record<string, string>): WireClient {
    return new WireClient(this.baseUrl, this.transport, { ...this.headers, ...headers });
  }

  /** The client of somebody else. */
  as(user: string): WireClient {
    return this.with({ authorization: `Bearer ${user}` });
  }

  /** Sends a message to which the agent does what the prefix asks for; its text is the prefix too. */
  async send(prefix: string, more: Partial<WireMessage> = {}, params: WireParams = {}): Promise<WireAnswer<Sent>> {
    return this.call<Sent>('SendMessage', { ...params, message: messageOf(prefix, more) });
  }

  /** The task of a message. */
  async task(prefix: string, more: Partial<WireMessage> = {}, params: WireParams = {}): Promise<WireTask> {
    const { task } = (await this.send(prefix, more, params)).result;
    if (!task) throw new Error(`${prefix} was answered with a message`);
    return task;
  }

  async call<Result = unknown>(operation: string, params: WireParams = {}): Promise<WireAnswer<Result>> {
    const response = await this.request(operation, params);
    const text = await response.text();
    return answerOf<Result>(response, text === '' ? undefined : JSON.parse(text));
  }

  /** Opens a stream. @throws where the operation is refused before there is one */
  async stream(operation: string, params: WireParams): Promise<WireStream> {
    const hangUp = new AbortController();
    const response = await this.request(operation, params, hangUp.signal);
    const type = response.headers.get('content-type');
    if (!type?.startsWith('text/event-stream')) throw new Error(`${type}: ${await response.text()}`);
    return new WireStream(response, hangUp, this.transport);
  }

  private request(operation: string, params: WireParams, signal?: AbortSignal): Promise<Response> {
    const headers = { 'a2a-version': '1.0', 'content-type': 'application/json', ...this.headers };
    const init = { headers, ...(signal && { signal }) };
    if (this.transport === 'JSONRPC') {
      const body = JSON.stringify({ jsonrpc: '2.0', id: randomUUID(), method: operation, params });
      return fetch(`${this.baseUrl}/a2a/jsonrpc`, { ...init, method: 'POST', body });
    }
    const { method, path } = ROUTES[operation]!;
    const rest = { ...params };
    const filled = path.replace(/{(\w+)}/g, (_, name: string) => {
      const value = String(rest[name]);
      delete rest[name];
      return encodeURIComponent(value);
    });
    const url = `${this.baseUrl}/a2a/rest${filled}`;
    if (method === 'POST') return fetch(url, { ...init, method, body: JSON.stringify(rest) });
    const query = new URLSearchParams(rest as Record<string, string>);
    return fetch(`${url}?${query.toString()}`, { ...init, method });
  }
}

/** What SendMessage answers: one of the two. */
export interface Sent {
  task?: WireTask;
  message?: WireMessage;
}

export const messageOf = (prefix: string, more: Partial<WireMessage> = {}): WireMessage => ({
  messageId: `${prefix}-${randomUUID()}`,
  role: 'ROLE_USER',
  parts: [{ text: prefix }],
  ...more,
});

function answerOf<Result>({ status, headers }: Response, body: unknown): WireAnswer<Result> {
  const { error, result = body } = (body ?? {}) as { error?: RawError; result?: unknown };
  const details = error?.data ?? error?.details ?? [];
  return {
    ...{ status, headers, body },
    error: error && { ...error, details, reason: details.find(({ reason }) => reason)?.reason },
    get result(): Result {
      if (error) throw new Error(`${error.code} ${error.message}`);
      return result as Result;
    },
  };
}

interface RawError {
  code: number;
  message: string;
  data?: WireError['details'];
  details?: WireError['details'];
}
