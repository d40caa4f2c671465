import { stablePort } from '../../../tools/harness/port.js';
import { TcpProxy } from '../../../tools/harness/tcp-proxy.js';
import type { ChaosOptions } from '../options.js';
import type { Recorder } from '../recorder.js';
import { MAX_ATTEMPTS, TIMES } from '../times.js';
import { Replica } from './replica.js';

const HOST = '127.0.0.1';

/** The replicas of a run, and the networks between some of them and the database. */
export class Cluster {
  readonly replicas: Replica[] = [];
  private readonly networks = new Map<string, TcpProxy>();
  private stopped = false;

  /** Starts all replicas; what has begun is known to {@link stop} even if this fails. */
  async start(databaseUrl: string, options: ChaosOptions, recorder: Recorder): Promise<void> {
    for (const name of namesOf(options.replicas)) {
      const at = this.replicas.length;
      if (hasNetwork(at)) this.networks.set(name, await TcpProxy.start(databaseUrl));
      const port = await stablePort(HOST);
      const agent = agentOf(at, options);
      // Of two policies each has its turns: what is run again, and what is not.
      const policy = at % 4 === 3 ? 'fail' : 're-execute';
      const env = {
        PORT: String(port),
        DATABASE_URL: this.networks.get(name)?.url ?? databaseUrl,
        A2A_AGENT_ID: agent,
        A2A_HEARTBEAT_MS: String(TIMES.heartbeat),
        A2A_TTL_MS: String(TIMES.ttl),
        A2A_SWEEP_MS: String(TIMES.sweep),
        A2A_POLL_MS: String(TIMES.poll),
        A2A_POLICY: policy,
        A2A_MAX_ATTEMPTS: String(MAX_ATTEMPTS),
        A2A_BACKOFF_MS: String(options.backoff),
        A2A_DRAIN_MS: String(TIMES.drain),
        A2A_CANCEL_MS: String(TIMES.cancel),
        A2A_PUSH_ALLOW: '127.0.0.0/8',
        ...(options.library !== undefined && { CHAOS_LIBRARY: options.library }),
      };
      this.replicas.push(new Replica({ name, agent, policy, url: `http://${HOST}:${port}`, env }, recorder));
    }
    if (!this.stopped) await Promise.all(this.replicas.map((replica) => replica.start()));
  }

  replica(name: string): Replica {
    const found = this.replicas.find((replica) => replica.name === name);
    if (!found) throw new Error(`There is no replica ${name}`);
    return found;
  }

  network(name: string): TcpProxy {
    const network = this.networks.get(name);
    if (!network) throw new Error(`Replica ${name} reaches the database directly`);
    return network;
  }

  /** Everything runs and reaches everything. */
  async heal(): Promise<void> {
    await Promise.all([...this.networks.values()].map((network) => network.heal()));
    for (const replica of this.replicas) replica.signal('SIGCONT');
    await Promise.all(this.replicas.map((replica) => replica.ready()));
  }

  async stop(graceMs: number): Promise<(number | null)[]> {
    this.stopped = true;
    const codes = await Promise.all(this.replicas.map((replica) => replica.stop(graceMs)));
    await Promise.all([...this.networks.values()].map((network) => network.stop()));
    return codes;
  }
}

/** A, B, C … */
export const namesOf = (replicas: number): string[] =>
  Array.from({ length: replicas }, (_, at) => String.fromCharCode(65 + at));

/** Every other one reaches the database through a proxy, so that each agent has such a one. */
export const hasNetwork = (at: number): boolean => at % 2 === 0;

/** The first ones serve the first agent, and so on. */
const agentOf = (at: number, { replicas, agents }: ChaosOptions): string =>
  `agent-${Math.floor((at * agents) / replicas) + 1}`;
