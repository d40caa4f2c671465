import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { onCleanUp } from './clean-up.js';
import { inheritedEnvironment, REPLICA_PROGRAM } from './replica-program.js';
import { Deferred, eventually, within } from './wait.js';

const ATTEMPTS = 3;

/** Environment of a replica as in the README: `DATABASE_URL`, `A2A_TTL_MS`, … */
export type ReplicaEnvironment = Record<string, string | number>;

/** How a process ended: by itself with a code, or by a signal. */
export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** One replica of the sample as a process of its own. What a test leaves running is killed when its file is done. */
export class ReplicaProcess {
  /** Everything it wrote to standard output and standard error, line by line. */
  readonly output: string[] = [];
  /** Resolves once it has ended and its output is complete. */
  readonly exited: Promise<ProcessExit>;
  private readonly listeners = new Set<() => void>();
  private hasExited = false;

  private baseUrl: string | undefined;

  private constructor(
    readonly name: string,
    private readonly child: ChildProcessByStdio<null, Readable, Readable>,
  ) {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        this.output.push(line);
        this.listeners.forEach((listener) => listener());
      });
    }
    this.exited = new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => {
        this.hasExited = true;
        this.listeners.forEach((listener) => listener());
        resolve({ code, signal });
      });
    });
    this.exited.catch(() => undefined);
  }

  /**
   * Starts a replica on a free port, unless `env` says which, and waits until it says that it serves.
   *
   * @throws {Error} with its output when it ends before that
   */
  static async start(name: string, env: ReplicaEnvironment): Promise<ReplicaProcess> {
    for (let attempt = 1; ; attempt += 1) {
      const replica = ReplicaProcess.spawn(name, env);
      try {
        const [, url] = await replica.waitForLine(/^replica \S+ serves (http\S+)/, 60_000);
        replica.baseUrl = url;
        return replica;
      } catch (error) {
        await replica.kill('SIGKILL');
        // Between its choice of a port and its listening somebody else may have taken that port.
        const portTaken = replica.output.some((line) => line.includes('EADDRINUSE'));
        if (!portTaken || env.PORT !== undefined || attempt === ATTEMPTS) throw error;
      }
    }
  }

  /** Starts a replica that may well refuse to start, and returns at once: then see `exited` and `output`. */
  static spawn(name: string, env: ReplicaEnvironment): ReplicaProcess {
    if (!existsSync(REPLICA_PROGRAM)) throw new Error(`${REPLICA_PROGRAM} is missing: run npm run build`);
    const child = spawn(process.execPath, [REPLICA_PROGRAM], {
      env: { ...inheritedEnvironment(), PORT: '0', REPLICA: name, ...asStrings(env) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const replica = new ReplicaProcess(name, child);
    const forget = onCleanUp(() => replica.kill('SIGKILL'));
    const unlist = listForSweep(child.pid);
    child.once('exit', () => {
      forget();
      unlist();
    });
    return replica;
  }

  /** Where it said that it serves: the base URL for `clientFor`. */
  get url(): string {
    if (this.baseUrl === undefined) throw new Error(`Replica ${this.name} does not serve yet`);
    return this.baseUrl;
  }

  get pid(): number {
    if (this.child.pid === undefined) throw new Error(`Replica ${this.name} did not start`);
    return this.child.pid;
  }

  /** The first line, written already or yet to come, that the pattern matches. */
  async waitForLine(pattern: RegExp, timeoutMs = 10_000): Promise<RegExpMatchArray> {
    const found = new Deferred<RegExpMatchArray>();
    let seen = 0;
    const look = (): void => {
      for (; seen < this.output.length; seen += 1) {
        const match = this.output[seen]?.match(pattern);
        if (match) return found.resolve(match);
      }
      if (this.hasExited) found.reject(new Error(`Replica ${this.name} ended without ${pattern}\n${this.tail()}`));
    };
    this.listeners.add(look);
    try {
      look();
      return await within(found.promise, timeoutMs, () => `${this.name} writes ${pattern}\n${this.tail()}`);
    } finally {
      this.listeners.delete(look);
    }
  }

  /** Sends the signal and, where it ends the process at once, waits for the end. */
  async kill(signal: NodeJS.Signals): Promise<void> {
    this.child.kill(signal);
    if (signal === 'SIGKILL') await this.exited.catch(() => undefined);
  }

  /** Asks it to shut down (SIGTERM) and returns its exit code, null if a signal ended it after all. */
  async stop(timeoutMs = 60_000): Promise<number | null> {
    this.child.kill('SIGTERM');
    const { code } = await within(this.exited, timeoutMs, () => `${this.name} ends after SIGTERM\n${this.tail()}`);
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

  private tail(): string {
    return this.output.slice(-30).join('\n');
  }
}

/** One replica for each name, started at the same time, on one environment. */
export async function startReplicas<const Names extends readonly string[]>(
  names: Names,
  env: ReplicaEnvironment,
): Promise<{ -readonly [Index in keyof Names]: ReplicaProcess }> {
  const replicas = await Promise.all(names.map((name) => ReplicaProcess.start(name, env)));
  return replicas as { -readonly [Index in keyof Names]: ReplicaProcess };
}

function asStrings(env: ReplicaEnvironment): Record<string, string> {
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, String(value)]));
}

/** Lists the process for sweep-run.sh, which kills it when this worker cannot any more. */
function listForSweep(pid: number | undefined): () => void {
  const runDir = process.env.A2A_TEST_RUN_DIR;
  if (!runDir || pid === undefined) return () => undefined;
  const listed = join(runDir, 'pids', String(pid));
  writeFileSync(listed, REPLICA_PROGRAM);
  return () => rmSync(listed, { force: true });
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
