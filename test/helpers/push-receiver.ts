import { once } from 'node:events';
import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onCleanUp } from './clean-up.js';
import { eventually } from '../../tools/harness/wait.js';

/** The config of a receiver, as a client registers it. */
export const configOf = (url: string, more: Partial<TaskPushNotificationConfig> = {}): TaskPushNotificationConfig => ({
  tenant: '',
  id: '',
  taskId: '',
  url,
  token: '',
  authentication: undefined,
  ...more,
});

/** One notification as it arrived. */
export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  /** The JSON of the body. */
  body: Record<string, { status?: { state: string }; artifact?: { artifactId: string } } | undefined>;
}

/** How a receiver answers: with a status, or in its own way. */
export type Answer = number | ((response: ServerResponse) => void);

/** A webhook that takes push notifications and keeps them. Closed when its test file is done. */
export class PushReceiver {
  readonly received: Received[] = [];
  /** What it answers next. Default: 200. */
  answer: Answer = 200;

  private constructor(private readonly server: Server) {}

  static async start(port = 0): Promise<PushReceiver> {
    const server = createServer();
    const receiver = new PushReceiver(server);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = JSON.parse(Buffer.concat(chunks).toString()) as Received['body'];
        receiver.received.push({ path: request.url ?? '', headers: request.headers, body });
        if (typeof receiver.answer === 'function') receiver.answer(response);
        else response.writeHead(receiver.answer).end();
      });
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    onCleanUp(() => receiver.close());
    return receiver;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  url(path = '/hook'): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  /** What arrived at a path, each in two words: `task SUBMITTED`, `status WORKING`, `artifact a1`. */
  seen(path = '/hook'): string[] {
    return this.received.filter((it) => it.path === path).map(({ body }) => summaryOf(body));
  }

  until(predicate: () => boolean, timeoutMs = 10_000): Promise<boolean> {
    return eventually(predicate, { timeoutMs });
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    if (!this.server.listening) return;
    this.server.close();
    await once(this.server, 'close');
  }
}

function summaryOf({ task, statusUpdate, artifactUpdate }: Received['body']): string {
  const state = (it: { status?: { state: string } }): string => it.status?.state.replace('TASK_STATE_', '') ?? '';
  if (task) return `task ${state(task)}`;
  if (statusUpdate) return `status ${state(statusUpdate)}`;
  return `artifact ${artifactUpdate?.artifact?.artifactId ?? ''}`;
}
