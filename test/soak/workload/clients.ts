import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { createAuthenticatingFetchWithRetry } from '@a2a-js/sdk/client';
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
          const fetchImpl = fetchAs(user);
          const factory = transport === 'JSONRPC' ? JsonRpcTransportFactory : RestTransportFactory;
          const client = await new ClientFactory({ transports: [new factory({ fetchImpl })] }).createFromUrl(
            settings.url,
          );
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

/** Sends `Authorization: Bearer NAME` along, which makes the caller that user of the sample. */
function fetchAs(user: string): typeof fetch {
  return createAuthenticatingFetchWithRetry(fetch, {
    headers: () => Promise.resolve({ Authorization: `Bearer ${user}` }),
    shouldRetryWithHeaders: () => Promise.resolve(undefined),
  });
}
