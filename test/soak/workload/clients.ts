import { clientFor } from '../../../tools/harness/client.js';
import type { Replica } from '../cluster/replica.js';
import type { Random } from '../random.js';
import type { Recorder } from '../recorder.js';
import { RecordedClient, type Where } from './recorded-client.js';

const TRANSPORTS = ['JSONRPC', 'HTTP+JSON'] as const;

/** The callers: each sees its own tasks only. */
export const USERS = ['ada', 'grace', 'edsger'] as const;

/** Clients of every replica, over both transports, as every user. They are made while all replicas serve. */
export class Clients {
  private readonly made: { readonly agent: string; readonly client: RecordedClient }[] = [];

  async connect(replicas: readonly Replica[], recorder: Recorder): Promise<void> {
    for (const { settings } of replicas) {
      for (const transport of TRANSPORTS) {
        for (const user of USERS) {
          const where: Where = { replica: settings.name, transport, user };
          const client = await clientFor(settings.url, { transport, user });
          this.made.push({ agent: settings.agent, client: new RecordedClient(client, where, recorder) });
        }
      }
    }
  }

  /** Any client of an agent that speaks as this user. */
  any(random: Random, agent: string, user: string): RecordedClient {
    return random.pick(this.made.filter((it) => it.agent === agent && it.client.where.user === user)).client;
  }

  at(random: Random, replica: string, user: string): RecordedClient {
    return random.pick(this.made.filter(({ client: { where } }) => where.replica === replica && where.user === user))
      .client;
  }

  agentOf(replica: string): string {
    const found = this.made.find(({ client }) => client.where.replica === replica);
    if (!found) throw new Error(`There is no client of replica ${replica}`);
    return found.agent;
  }

  get replicas(): string[] {
    return [...new Set(this.made.map(({ client }) => client.where.replica))];
  }

  get agents(): string[] {
    return [...new Set(this.made.map(({ agent }) => agent))];
  }
}
