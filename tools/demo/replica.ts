import type { LedgerCount } from '../scripted-agent/ledger/ledger.service.js';
import type { AgentClient } from './agent.client.js';
import { within } from './expect.js';
import { PATIENCE_MS } from './times.js';
import type { ReplicaProcess } from '../harness/replica-process.js';

/** A process that serves, and a client at it. */
export interface RunningReplica {
  readonly process: ReplicaProcess;
  readonly url: string;
  readonly client: AgentClient;
}

/** One replica of the demo. When its process has died it may be started again: then process and client are new ones. */
export class Replica {
  private constructor(
    readonly name: string,
    private readonly begin: () => Promise<RunningReplica>,
    private running: RunningReplica,
  ) {}

  static async start(name: string, begin: () => Promise<RunningReplica>): Promise<Replica> {
    return new Replica(name, begin, await begin());
  }

  get process(): ReplicaProcess {
    return this.running.process;
  }

  get client(): AgentClient {
    return this.running.client;
  }

  /** Waits for a line of its process, past ones included. */
  async line(pattern: RegExp): Promise<string> {
    const { input = '' } = await this.process.waitForLine(pattern, PATIENCE_MS);
    return input;
  }

  async restart(): Promise<void> {
    this.running = await this.begin();
  }

  /** What the ledger says of a task: the same at every replica. */
  async ledger(taskId: string): Promise<LedgerCount> {
    const response = await within(`the ledger at ${this.name}`, fetch(`${this.running.url}/ledger/${taskId}`));
    return (await response.json()) as LedgerCount;
  }
}
