import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { builtTool } from './built-tool.js';
import type { AnyText, Answer, Command, Direction, Flow } from './tcp-proxy.process.js';
import { Deferred, within } from './wait.js';

const BOTH: Direction[] = ['toServer', 'toClient'];

/** Far more than it takes: a limit is there to end what hangs. */
const ANSWER_MS = 30_000;

/** The connections on which the client has ever sent this text; all, new ones included, where none is given. */
export interface ConnectionSet {
  sent?: AnyText;
}

/**
 * A TCP proxy process between one replica and PostgreSQL, for faults of the network that no mock would play as TCP does.
 * A replica reaches the database through {@link url}.
 */
export class TcpProxy {
  private readonly answers = new Map<number, Deferred<number>>();
  private readonly traps = new Map<string, Deferred>();
  private readonly listening = new Deferred<number>();
  private lastId = 0;

  private constructor(
    private readonly child: ChildProcess,
    private readonly databaseUrl: string,
    private port: number,
  ) {
    child.on('message', (answer: Answer) => {
      if ('port' in answer) this.listening.resolve(answer.port);
      else if ('trapped' in answer) this.traps.get(answer.trapped)?.resolve();
      else this.answers.get(answer.id)?.resolve(answer.count);
    });
    child.once('exit', () => {
      const gone = new Error('The TCP proxy has ended');
      for (const waiting of [this.listening, ...this.answers.values(), ...this.traps.values()]) waiting.reject(gone);
    });
  }

  /** Starts a proxy in front of the server of this URL, on a free port. */
  static async start(databaseUrl: string): Promise<TcpProxy> {
    const { hostname, port } = new URL(databaseUrl);
    const child = spawn(process.execPath, [builtTool('harness/tcp-proxy.process.js'), hostname, port], {
      env: {},
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      detached: true, // Ctrl-C is for us, who end it ourselves; it ends with us in any case
    });
    const proxy = new TcpProxy(child, databaseUrl, 0);
    try {
      proxy.port = await within(proxy.listening.promise, ANSWER_MS, 'the TCP proxy listens');
    } catch (error) {
      await proxy.stop();
      throw error;
    }
    return proxy;
  }

  /** The database's URL by way of the proxy. */
  get url(): string {
    const url = new URL(this.databaseUrl);
    url.hostname = '127.0.0.1';
    url.port = String(this.port);
    return url.href;
  }

  /** Each direction takes so much longer. */
  delay(ms: number, set: ConnectionSet = {}): Promise<number> {
    return this.flow({ kind: 'delay', ms }, BOTH, set);
  }

  /** Black hole: nothing comes through either way, and nobody is told. {@link heal} delivers what was sent meanwhile. */
  partition(set: ConnectionSet = {}): Promise<number> {
    return this.flow({ kind: 'hold' }, BOTH, set);
  }

  /** Half-open: what is sent in this direction is gone, the other still works. {@link cut} ends it. */
  swallow(direction: Direction, set: ConnectionSet = {}): Promise<number> {
    return this.flow({ kind: 'swallow' }, [direction], set);
  }

  /** This direction works again, the other is left as it is. */
  pass(direction: Direction, set: ConnectionSet = {}): Promise<number> {
    return this.flow({ kind: 'pass' }, [direction], set);
  }

  /** All passes again, first what was held. */
  heal(set: ConnectionSet = {}): Promise<number> {
    return this.flow({ kind: 'pass' }, BOTH, set);
  }

  /** Resets connections; new ones are free to come. */
  cut(set: ConnectionSet = {}): Promise<number> {
    return this.command({ do: 'cut', ...set });
  }

  /** How many connections of the set are open. */
  count(set: ConnectionSet = {}): Promise<number> {
    return this.command({ do: 'count', ...set });
  }

  /**
   * Holds the next statement that contains the text, and what follows on its connection, before the server sees it.
   * {@link heal} lets it go. Resolves when the trap is set; `caught` when something is in it.
   */
  async trap(text: AnyText): Promise<{ caught: Promise<void> }> {
    const trap = new Deferred();
    const name = randomUUID();
    this.traps.set(name, trap);
    await this.command({ do: 'trap', text, name });
    const caught = within(trap.promise, 10_000, `a statement comes that contains ${[text].flat().join(' or ')}`);
    caught.catch(() => undefined); // a test that fails before it awaits this has said why
    return { caught };
  }

  /** Ends the proxy, and with it every connection that goes through it. */
  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await exited;
  }

  /** What happens to the bytes of these directions from now on. */
  flow(flow: Flow, directions: Direction[] = BOTH, set: ConnectionSet = {}): Promise<number> {
    return this.command({ do: 'flow', flow, directions, ...set });
  }

  private async command(command: Command): Promise<number> {
    if (!this.child.connected) throw new Error('The TCP proxy has ended');
    const id = (this.lastId += 1);
    const answer = new Deferred<number>();
    this.answers.set(id, answer);
    this.child.send({ id, command });
    try {
      return await within(answer.promise, ANSWER_MS, `the TCP proxy does ${command.do}`);
    } finally {
      this.answers.delete(id);
    }
  }
}
