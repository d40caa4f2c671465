import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import type { Random } from '../random.js';
import type { Recorder } from '../recorder.js';
import type { Json } from '../recording.js';

/** How a receiver takes what it is told. */
type Manner = 'well' | 'slow' | 'refuses now and then';

const SLOW_MS = 400;
const REFUSES_EVERY = 4;

/** Webhooks: a path for each receiver, all behind one port. What arrives is written down with the answer. */
export class PushReceivers {
  private readonly manners = new Map<string, { manner: Manner; posts: number }>();

  private constructor(
    private readonly server: Server,
    private readonly recorder: Recorder,
    private readonly url: string,
  ) {}

  static async start(recorder: Recorder): Promise<PushReceivers> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const receivers = new PushReceivers(server, recorder, `http://127.0.0.1:${port}`);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('error', () => undefined);
      request.on('end', () => {
        const configId = (request.url ?? '').slice(1);
        const answer = (status: number) => {
          // Written down before it is answered: what the sender knows to be taken is in the recording.
          receivers.take(configId, Buffer.concat(chunks).toString(), status);
          response.writeHead(status).end();
        };
        const { status, afterMs } = receivers.answerOf(configId);
        if (afterMs > 0) setTimeout(() => answer(status), afterMs);
        else answer(status);
      });
    });
    return receivers;
  }

  /** A new receiver, for a task that is there or for the one that a message begins. */
  config(random: Random, taskId = ''): TaskPushNotificationConfig {
    const id = randomUUID();
    const manners: readonly Manner[] = ['well', 'well', 'well', 'slow', 'refuses now and then'];
    this.manners.set(id, { manner: random.pick(manners), posts: 0 });
    return { tenant: '', id, taskId, url: `${this.url}/${id}`, token: '', authentication: undefined };
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  private answerOf(configId: string): { status: number; afterMs: number } {
    const receiver = this.manners.get(configId);
    if (!receiver) return { status: 404, afterMs: 0 };
    receiver.posts += 1;
    const refuses = receiver.manner === 'refuses now and then' && receiver.posts % REFUSES_EVERY === 0;
    return { status: refuses ? 503 : 200, afterMs: receiver.manner === 'slow' ? SLOW_MS : 0 };
  }

  private take(configId: string, body: string, status: number): void {
    this.recorder.write({ kind: 'push', configId, event: JSON.parse(body) as Json, status });
  }
}
