import { randomUUID } from 'node:crypto';
import type { Transport } from '../e2e/raw-requests.js';
import { answered, type ErrorDetail, type Sent, type WireAnswer, WireClient } from './wire.client.js';
import { WireStream } from './wire.stream.js';
import type { WireEvent, WireMessage, WireParams } from './wire.types.js';

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

export interface HttpAnswer<Result = unknown> extends WireAnswer<Result> {
  headers: Headers;
  /** The body as it came. */
  body: unknown;
}

/** JSON-RPC, or HTTP+JSON. */
export class HttpClient extends WireClient {
  constructor(
    private readonly baseUrl: string,
    readonly transport: Transport,
    private readonly headers: Record<string, string> = {},
  ) {
    super();
  }

  override with(headers: Record<string, string>): this {
    return new HttpClient(this.baseUrl, this.transport, { ...this.headers, ...headers }) as this;
  }

  override send(prefix: string, more?: Partial<WireMessage>, params?: WireParams): Promise<HttpAnswer<Sent>> {
    return super.send(prefix, more, params) as Promise<HttpAnswer<Sent>>;
  }

  override async call<Result = unknown>(operation: string, params: WireParams = {}): Promise<HttpAnswer<Result>> {
    const response = await this.request(operation, params);
    const text = await response.text();
    return answerOf<Result>(response, text === '' ? undefined : JSON.parse(text));
  }

  /** @throws where the operation is refused before there is a stream */
  override async stream(operation: string, params: WireParams): Promise<WireStream> {
    const hangUp = new AbortController();
    const response = await this.request(operation, params, hangUp.signal);
    const type = response.headers.get('content-type');
    if (!type?.startsWith('text/event-stream')) throw new Error(`${type}: ${await response.text()}`);
    return new WireStream(this.eventsOf(response), () => hangUp.abort());
  }

  /** Asks, and has the answer as it comes. */
  request(operation: string, params: WireParams, signal?: AbortSignal): Promise<Response> {
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

  /** Server-sent events, one by one. */
  private async *eventsOf(response: Response): AsyncGenerator<WireEvent, void> {
    const chunks: AsyncIterable<string> = response.body!.pipeThrough(new TextDecoderStream());
    let buffer = '';
    for await (const chunk of chunks) {
      const blocks = (buffer + chunk).split(/\r?\n\r?\n/);
      buffer = blocks.pop()!;
      for (const block of blocks) {
        const data = block.split(/\r?\n/).flatMap((line) => /^data: ?(.*)$/.exec(line)?.[1] ?? []);
        if (data.length > 0) yield this.eventOf(JSON.parse(data.join('\n')));
      }
    }
  }

  /** JSON-RPC puts each event into an answer to the request. */
  private eventOf(item: unknown): WireEvent {
    if (this.transport !== 'JSONRPC') return item as WireEvent;
    const { jsonrpc, result } = item as { jsonrpc: string; result: WireEvent };
    expect(jsonrpc).toBe('2.0');
    return result;
  }
}

function answerOf<Result>({ status, headers }: Response, body: unknown): HttpAnswer<Result> {
  const { error, result = body } = (body ?? {}) as { error?: RawError; result?: unknown };
  const details = error?.data ?? error?.details ?? [];
  return answered({ status, headers, body }, result, error && { ...error, details });
}

interface RawError {
  code: number;
  message: string;
  data?: ErrorDetail[];
  details?: ErrorDetail[];
}
