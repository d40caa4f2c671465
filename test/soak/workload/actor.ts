import type { Message, Task } from '@a2a-js/sdk';
import type { Random } from '../random.js';
import type { Json } from '../recording.js';
import type { Clients } from './clients.js';
import { userMessage } from '../../../tools/harness/client.js';
import type { PushReceivers } from './push-receivers.js';
import type { Outcome, RecordedClient, SendRequest } from './recorded-client.js';

/** How often a client asks again where it did not hear an answer, and how long it waits before. */
const TRIES = 8;
const AGAIN_MS = 400;

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A user who behaves as a good client does: it repeats what it had no answer to, and goes on where a stream broke. */
export class Actor {
  constructor(
    readonly random: Random,
    private readonly clients: Clients,
    private readonly receivers: PushReceivers,
    private readonly agent: string,
    private readonly user: string,
  ) {}

  /** A client of any replica. */
  get client(): RecordedClient {
    return this.clients.any(this.random, this.agent, this.user);
  }

  /** Some messages come with a push receiver. */
  request(text: string, taskId?: string): SendRequest {
    const push = this.random.chance(0.25) ? this.receivers.config(this.random) : undefined;
    return { message: userMessage(text, taskId === undefined ? {} : { taskId }), push };
  }

  /** Sends it until there is an answer: the same message each time, which is accepted once. */
  deliver(request: SendRequest): Promise<Outcome<Task | Message>> {
    return this.until((client) => client.send(request));
  }

  cancel(taskId: string): Promise<Outcome<Task>> {
    return this.until((client) => client.cancel(taskId));
  }

  /** The task that answers a message; undefined where it was refused, or answered by a message. */
  async begin(text: string): Promise<Task | undefined> {
    const outcome = await this.deliver({ ...this.request(text), immediately: true });
    return outcome.how === 'answered' && !('messageId' in outcome.value) ? outcome.value : undefined;
  }

  /** Adds a push receiver to a task that is there. */
  async listen(taskId: string): Promise<void> {
    await this.client.setPush(this.receivers.config(this.random, taskId));
  }

  /** Watches a task to its end, from any replica, and from another one whenever the stream breaks. */
  async watch(taskId: string): Promise<void> {
    for (let left = TRIES; left > 0; left -= 1) {
      const outcome = await this.client.subscribe(taskId);
      if (outcome.how === 'refused' || (outcome.how === 'answered' && isOver(outcome.value))) return;
      await pause(AGAIN_MS);
    }
  }

  private async until<T>(ask: (client: RecordedClient) => Promise<Outcome<T>>): Promise<Outcome<T>> {
    let outcome: Outcome<T> = { how: 'broken' };
    for (let left = TRIES; left > 0; left -= 1) {
      outcome = await ask(this.client);
      if (outcome.how === 'answered' || outcome.how === 'refused') return outcome;
      await pause(AGAIN_MS);
    }
    return outcome;
  }
}

const OVER = /^TASK_STATE_(COMPLETED|FAILED|CANCELED|REJECTED)$/;

/** Whether a stream ended with the end of its task. */
export function isOver(events: readonly Json[]): boolean {
  const last = events.at(-1) as Record<string, { status?: { state?: string } } | undefined> | undefined;
  const status = last?.statusUpdate?.status ?? last?.task?.status;
  return OVER.test(status?.state ?? '');
}
