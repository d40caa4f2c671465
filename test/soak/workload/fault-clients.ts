import { type Task } from '@a2a-js/sdk';
import type { Random } from '../random.js';
import { pause } from './actor.js';
import { type Clients, USERS } from './clients.js';
import { userMessage } from './messages.js';

const VANISHING = 5;

/** What the clients do that are faults themselves. */
export class FaultClients {
  constructor(
    private readonly random: Random,
    private readonly clients: Clients,
  ) {}

  /** Subscribes at the replica, and does not read for a while after the first event. */
  async slowSubscriber(replica: string, forMs: number): Promise<void> {
    const { task, user } = await this.begin(replica, 'stream 150 20 3000');
    let first = true;
    const onEvent = async () => {
      if (first) await pause(forMs);
      first = false;
    };
    if (task) await this.clients.at(this.random, replica, user).subscribe(task.id, onEvent);
  }

  /** Subscribers at the replica that are gone in the middle of the stream. */
  async vanishingSubscribers(replica: string, afterMs: number): Promise<void> {
    const { task, user } = await this.begin(replica, 'stream 60 30 1000');
    if (!task) return;
    const gone = Array.from({ length: VANISHING }, (_, at) => AbortSignal.timeout(afterMs + 20 * at));
    await Promise.all(
      gone.map((hangUp) => this.clients.at(this.random, replica, user).subscribe(task.id, undefined, hangUp)),
    );
  }

  async lethalRequest(replica: string): Promise<void> {
    await this.begin(replica, 'say goodbye\nexit', replica);
  }

  async blockingRequest(replica: string, forMs: number): Promise<void> {
    await this.begin(replica, `say nothing for ${forMs} ms\nblock ${forMs / 1000}\nsay again`, replica);
  }

  /** A task that runs at any replica of the same agent, or at this very one. */
  private async begin(replica: string, text: string, at?: string): Promise<{ task: Task | undefined; user: string }> {
    const user = this.random.pick(USERS);
    const client =
      at === undefined
        ? this.clients.any(this.random, this.clients.agentOf(replica), user)
        : this.clients.at(this.random, at, user);
    const outcome = await client.send({ message: userMessage(text), immediately: true });
    const task = outcome.how === 'answered' && !('messageId' in outcome.value) ? outcome.value : undefined;
    return { task, user };
  }
}
