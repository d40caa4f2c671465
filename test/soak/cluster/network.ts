import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Answer, Command, Direction, Flow } from '../../helpers/tcp-proxy.process.js';

const ENTRY = fileURLToPath(new URL('../../helpers/tcp-proxy.process.js', import.meta.url));
const BOTH: Direction[] = ['toServer', 'toClient'];

/** The network between one replica and the database: a TCP proxy in a process of its own, of the tests' helpers. */
export class Network {
  private last = 0;

  private constructor(
    private readonly child: ChildProcess,
    /** The database's URL by way of it. */
    readonly url: string,
  ) {}

  static async start(databaseUrl: string): Promise<Network> {
    const target = new URL(databaseUrl);
    const child = spawn(process.execPath, [ENTRY, target.hostname, target.port], {
      ...{ env: {}, stdio: ['ignore', 'ignore', 'inherit', 'ipc'], detached: true },
    });
    const [answer] = (await once(child, 'message')) as [Answer];
    if (!('port' in answer)) throw new Error('The TCP proxy does not say where it listens');
    target.port = String(answer.port);
    return new Network(child, target.href);
  }

  flow(flow: Flow, directions: Direction[] = BOTH): void {
    this.send({ do: 'flow', flow, directions });
  }

  /** Resets all connections; new ones are free to come. */
  cut(): void {
    this.send({ do: 'cut' });
  }

  /** All passes again, first what was held. */
  heal(): void {
    this.flow({ kind: 'pass' });
  }

  stop(): void {
    this.child.kill('SIGKILL');
  }

  private send(command: Command): void {
    if (this.child.connected) this.child.send({ id: (this.last += 1), command });
  }
}
