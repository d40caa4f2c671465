import { type ChildProcess, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { builtTool } from './built-tool.js';
import { Deferred, eventually, within } from './wait.js';

/** Environment of a replica as in tools/README.md: `DATABASE_URL`, `A2A_TTL_MS`, … */
export type ReplicaEnvironment = Readonly<Record<string, string | number | undefined>>;

/** How a process ended: by itself with a code, or by a signal. */
export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface ReplicaOptions {
  /** All of its environment, but REPLICA, and PORT, which is a free one unless it is named. */
  readonly env: ReplicaEnvironment;
  /** Default: the built replica. */
  readonly program?: string;
  /** A module that is loaded into it first. */
  readonly preload?: string;
  /** Whether messages can be sent to what was preloaded. */
  readonly ipc?: boolean;
  /** Whether it has a process group of its own: then Ctrl-C is for us alone, who end our replicas ourselves. */
  readonly detached?: boolean;
  /** How many of its last lines are kept, or up to twice as many. Default: all. */
  readonly keptLines?: number;
}

const SERVES = /^replica \S+ serves (http\S+)/;

/** One replica in a process of its own, which can be killed, frozen and thawed. */
export class ReplicaProcess {
  /** What it wrote to standard output and standard error, line by line. */
  readonly output: string[] = [];
  /** What of that it wrote to standard error. */
  readonly complaints: string[] = [];
  /** Resolves once it has ended and its output is complete. */
  readonly exited: Promise<ProcessExit>;
  private readonly listeners = new Set<(line: string) => void>();

  private constructor(
    readonly name: string,
    /** For messages, where it has a channel for them. */
    readonly child: ChildProcess,
    private readonly keptLines: number,
  ) {
    this.readLines('stdout', []);
    this.readLines('stderr', this.complaints);
    this.exited = new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => resolve({ code, signal }));
    });
    this.exited.catch(() => undefined);
  }

  /** Starts a replica, which may well refuse to start, and returns at once. */
  static spawn(name: string, options: ReplicaOptions): ReplicaProcess {
    const { env, program = builtTool('replica/main.js'), preload, ipc, detached, keptLines } = options;
    const preloading = preload === undefined ? [] : ['--import', preload];
    const child = spawn(process.execPath, [...preloading, program], {
      env: { PORT: '0', REPLICA: name, ...asStrings(env) },
      stdio: ['ignore', 'pipe', 'pipe', ipc ? 'ipc' : 'ignore'],
      detached: detached ?? false,
    });
    return new ReplicaProcess(name, child, keptLines ?? Number.POSITIVE_INFINITY);
  }

  get pid(): number {
    if (this.child.pid === undefined) throw new Error(`Replica ${this.name} did not start`);
    return this.child.pid;
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Waits until it says that it serves, and answers where. */
  async serves(timeoutMs: number): Promise<string> {
    const [, url = ''] = await this.waitForLine(SERVES, timeoutMs);
    return url;
  }

  /**
   * The first line, written already or yet to come, that the pattern matches.
   *
   * @throws {Error} with the end of its output when it ends before that, and past the time
   */
  async waitForLine(pattern: RegExp, timeoutMs = 10_000): Promise<RegExpMatchArray> {
    const found = new Deferred<RegExpMatchArray>();
    const look = (line: string): boolean => {
      const match = line.match(pattern);
      if (match) found.resolve(match);
      return match !== null;
    };
    if (!this.output.some(look)) this.listeners.add(look);
    const ended = (exit: string): void =>
      found.reject(new Error(`Replica ${this.name} ended (${exit}) without ${pattern.source}\n${this.tail(30)}`));
    this.exited.then(
      (exit) => ended(describeExit(exit)),
      (error: unknown) => ended(String(error)),
    );
    try {
      return await within(found.promise, timeoutMs, () => `${this.name} writes ${pattern.source}\n${this.tail(30)}`);
    } finally {
      this.listeners.delete(look);
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Sends the signal and, where it ends the process at once, waits for the end. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.child.kill(signal);
    if (signal === 'SIGKILL') await this.exited.catch(() => undefined);
  }

  /** Asks it to shut down (SIGTERM) and returns its exit code, null if a signal ended it after all. */
  async stop(timeoutMs = 60_000): Promise<number | null> {
    this.child.kill('SIGTERM');
    const { code } = await within(this.exited, timeoutMs, () => `${this.name} ends after SIGTERM\n${this.tail(30)}`);
    return code;
  }

  /** Stops its clockwork (SIGSTOP) and returns when it stands still: connections stay open, nothing runs. */
  async freeze(): Promise<void> {
    this.child.kill('SIGSTOP');
    await eventually(async () => (await processState(this.pid)) === 'T', { intervalMs: 5 });
  }

  /** Lets a frozen process run on (SIGCONT). */
  async thaw(): Promise<void> {
    this.child.kill('SIGCONT');
    await eventually(async () => (await processState(this.pid)) !== 'T', { intervalMs: 5 });
  }

  /** The last of what it wrote. */
  tail(lines: number): string {
    return this.output.slice(-lines).join('\n');
  }

  private readLines(from: 'stdout' | 'stderr', also: string[]): void {
    const stream = this.child[from];
    if (stream === null) return;
    createInterface({ input: stream }).on('line', (line) => {
      for (const lines of [this.output, also]) {
        lines.push(line);
        if (lines.length > 2 * this.keptLines) lines.splice(0, this.keptLines);
      }
      for (const listener of this.listeners) listener(line);
    });
  }
}

const INHERITED = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'];

/** Little of our own environment: Jest's NODE_OPTIONS, or somebody's DATABASE_URL, are not for a replica under test. */
export function inheritedEnvironment(): ReplicaEnvironment {
  return Object.fromEntries(INHERITED.map((name) => [name, process.env[name]]));
}

/** An exit in words. */
export function describeExit({ code, signal }: ProcessExit): string {
  return signal ?? `exit code ${code}`;
}

function asStrings(env: ReplicaEnvironment): Record<string, string> {
  const given = Object.entries(env).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}

/** One letter, as `ps` shows it. */
async function processState(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (stat !== undefined) return stat.slice(stat.lastIndexOf(')') + 2).charAt(0);
  const ps = spawn('ps', ['-o', 'state=', '-p', String(pid)]);
  let output = '';
  for await (const chunk of ps.stdout) output += String(chunk);
  return output.charAt(0);
}
