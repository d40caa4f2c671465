import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { DemoFailure, within } from './expect.js';
import { TIMES } from './times.js';

const ENTRY_POINT = join(import.meta.dirname, '..', 'replica', 'main.js');

/** Environment variables of a story's replicas, on top of the times. */
export type ReplicaSettings = Readonly<Record<string, string>>;

/** How a replica process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A replica in a process of its own, which can be killed, frozen and thawed. */
export class ReplicaProcess {
  readonly exited: Promise<Exit>;
  /** What it wrote to stderr, for when something goes wrong. */
  readonly complaints: string[] = [];
  private readonly child: ChildProcess;
  private readonly lines: string[] = [];
  private readonly listeners = new Set<(line: string) => void>();

  constructor(
    readonly name: string,
    databaseUrl: string,
    settings: ReplicaSettings,
  ) {
    // A process group of its own: Ctrl-C is for the demo, which then ends its replicas itself.
    this.child = spawn(process.execPath, [ENTRY_POINT], {
      env: replicaEnvironment(name, databaseUrl, settings),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.exited = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code, signal) => resolve({ code, signal }));
    });
    this.exited.catch(() => undefined);
    readLines(this.child.stdout, (line) => this.hear(line));
    readLines(this.child.stderr, (line) => this.complaints.push(line));
  }

  get pid(): number {
    const { pid } = this.child;
    if (pid === undefined) throw new DemoFailure(`replica ${this.name} did not start`);
    return pid;
  }

  /** Waits until it serves, and answers where. */
  async url(): Promise<string> {
    const line = await this.line(/^replica \S+ serves (\S+)$/);
    return line.slice(line.lastIndexOf(' ') + 1);
  }

  /** Waits for a line of its output, past ones included. */
  async line(pattern: RegExp): Promise<string> {
    const past = this.lines.find((line) => pattern.test(line));
    if (past !== undefined) return past;
    let listener: ((line: string) => void) | undefined;
    const heard = new Promise<string>((resolve) => {
      listener = (line) => pattern.test(line) && resolve(line);
      this.listeners.add(listener);
    });
    const ended = this.exited.then((exit) => {
      throw new DemoFailure(
        `replica ${this.name} ended (${describeExit(exit)}): ${this.complaints.at(-1) ?? 'silently'}`,
      );
    });
    try {
      return await within(`replica ${this.name} says ${pattern.source}`, Promise.race([heard, ended]));
    } finally {
      if (listener !== undefined) this.listeners.delete(listener);
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Ends it at once, frozen or not. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited.catch(() => undefined);
  }

  private hear(line: string): void {
    this.lines.push(line);
    for (const listener of this.listeners) listener(line);
  }
}

/** An exit in words. */
export function describeExit({ code, signal }: Exit): string {
  return signal ?? `exit code ${code}`;
}

function readLines(stream: Readable | null, hear: (line: string) => void): void {
  if (stream !== null) createInterface({ input: stream }).on('line', hear);
}

/** The demo's settings and no others: an A2A_* of the caller's shell is not meant for it. */
function replicaEnvironment(name: string, databaseUrl: string, settings: ReplicaSettings): NodeJS.ProcessEnv {
  const foreign = /^(A2A_.*|LEDGER_DATABASE_URL|PUBLIC_URL|HOST)$/;
  const inherited = Object.entries(process.env).filter(([key]) => !foreign.test(key));
  return {
    ...Object.fromEntries(inherited),
    REPLICA: name,
    PORT: '0',
    DATABASE_URL: databaseUrl,
    A2A_HEARTBEAT_MS: String(TIMES.heartbeat),
    A2A_TTL_MS: String(TIMES.ttl),
    A2A_SWEEP_MS: String(TIMES.sweep),
    A2A_POLL_MS: String(TIMES.poll),
    A2A_DRAIN_MS: String(TIMES.drain),
    A2A_CANCEL_MS: String(TIMES.cancel),
    ...settings,
  };
}
