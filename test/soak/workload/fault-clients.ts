import { type Task, TaskState } from '@a2a-js/sdk';
import type { Random } from '../random.js';
import { now, type Recorder } from '../recorder.js';
import { pause } from './actor.js';
import { type Clients, USERS } from './clients.js';
import { userMessage } from '../../../tools/harness/client.js';

const VANISHING = 5;

/** So many users are busy at a replica while it is made to block its event loop, and for how long they go on, in ms. */
const IN_FLIGHT = 4;
const IN_FLIGHT_MS = 200;

/** A replica that is well is asked once; how long and how often one is asked that is not, in ms. */
const SERVES_AGAIN_MS = 40_000;
const ASK_AGAIN_MS = 500;

/** What the clients do that are faults themselves. */
export class FaultClients {
  constructor(
    private readonly random: Random,
    private readonly clients: Clients,
    private readonly recorder: Recorder,
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

  /** Others begin tasks at the same replica, and look at them, without a pause: some of them just as it blocks. */
  async blockingRequest(replica: string, forMs: number): Promise<void> {
    let over = false;
    const others = Array.from({ length: IN_FLIGHT }, async () => {
      while (!over) {
        const { task, user } = await this.begin(replica, 'say beside it', replica);
        if (task) await this.clients.at(this.random, replica, user).get(task.id);
      }
    });
    await this.begin(replica, `say nothing for ${forMs} ms\nblock ${forMs / 1000}\nsay again`, replica);
    // The answer may come before the turn gets to its second command.
    await pause(IN_FLIGHT_MS);
    over = true;
    await Promise.all(others);
  }

  /** Asks each replica to do some work until it has, and writes down how long that took. */
  async askAll(): Promise<void> {
    await Promise.all(this.clients.replicas.map((replica) => this.askUntilServed(replica)));
  }

  private async askUntilServed(replica: string): Promise<void> {
    const from = now();
    const client = this.clients.at(this.random, replica, this.random.pick(USERS));
    while (now() - from < SERVES_AGAIN_MS) {
      const outcome = await client.send({ message: userMessage('say I am here') });
      const served = outcome.how === 'answered' && !('messageId' in outcome.value);
      if (served && outcome.value.status?.state === TaskState.TASK_STATE_COMPLETED) {
        return this.recorder.write({ kind: 'service', replica, from, to: now() });
      }
      await pause(ASK_AGAIN_MS);
    }
    this.recorder.write({ kind: 'service', replica, from });
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
