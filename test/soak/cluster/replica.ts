import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { inheritedEnvironment, REPLICA_PROGRAM } from '../../helpers/replica-program.js';
import type { Recorder } from '../recorder.js';
import { TIMES } from '../times.js';
import type { FromReplica, ToReplica } from './replica.preload.js';

const PRELOAD = new URL('./replica.preload.js', import.meta.url).href;

/**
 * A boot takes 1.5 s of a core, of which a busy machine gives little: a limit that is too short boots for ever. A database
 * that is away ends the process by itself, and is waited for by starting anew.
 */
const BOOT_MS = 180_000;
const AGAIN_MS = 300;

/**
 * For an end in order, whatever the database does: its turns have their time to drain and to hear of the end, and the rest
 * of it is bounded too. A busy machine needs more; time in which the process did not run is not counted at all.
 */
const END_MS = TIMES.drain + TIMES.cancel + 5_000 + 2_000;

/** What a replica is made of, whatever process it currently is. */
export interface ReplicaSettings {
  readonly name: string;
  readonly agent: string;
  readonly policy: string;
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * One replica of the run: a process, and after its death the next. However a process ended, another is started, until
 * {@link stop}.
 */
export class Replica {
  /** The last of what its processes wrote. */
  readonly output: string[] = [];
  private child: ChildProcess | undefined;
  private serving: Promise<void> = Promise.resolve();
  private stopped = false;
  /** Processes that ended by themselves, or with an error when they were asked to: in a line each. */
  readonly crashes: string[] = [];
  private expected = false;
  /** How long its processes have not been scheduled, by their own account, in ms. */
  private lagMs = 0;

  constructor(
    readonly settings: ReplicaSettings,
    private readonly recorder: Recorder,
  ) {}

  get name(): string {
    return this.settings.name;
  }

  /** Resolves when it serves. */
  ready(): Promise<void> {
    return this.serving;
  }

  start(): Promise<void> {
    this.serving = this.boot();
    return this.serving;
  }

  signal(name: NodeJS.Signals): void {
    this.child?.kill(name);
  }

  /** Ends it by this signal, and resolves when the next process serves. */
  async replace(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    await this.end(signal);
    await this.serving;
  }

  /** Ends its process by this signal. One that does not obey in time is a crash, and is killed. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const { child } = this;
    if (!isAlive(child)) return;
    const ended = once(child, 'exit');
    this.expected = true;
    child.kill(signal);
    const until = performance.now() + END_MS - this.lagMs;
    let timer: NodeJS.Timeout;
    const look = (): void => {
      const leftMs = until + this.lagMs - performance.now();
      if (leftMs > 0) timer = setTimeout(look, leftMs);
      else {
        this.crashes.push(`replica ${this.name} had not ended ${END_MS} ms after ${signal}: ${this.lastWords}`);
        child.kill('SIGKILL');
      }
    };
    timer = setTimeout(look, END_MS);
    await ended;
    clearTimeout(timer);
  }

  private get lastWords(): string {
    return this.output.slice(-8).join(' | ');
  }

  tell(message: ToReplica): void {
    if (this.child?.connected) this.child.send(message, () => undefined);
  }

  /** Ends it for good: in order if it does so within the time, else not. */
  async stop(graceMs: number): Promise<number | null> {
    this.stopped = true;
    this.expected = true;
    const { child } = this;
    const endedWith = child?.exitCode ?? null;
    if (!isAlive(child)) return endedWith;
    const ended = once(child, 'exit') as Promise<[number | null]>;
    child.kill('SIGCONT');
    child.kill(graceMs > 0 ? 'SIGTERM' : 'SIGKILL');
    const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
    const [code] = await ended;
    clearTimeout(timer);
    return code;
  }

  private async boot(): Promise<void> {
    while (!this.stopped) {
      if (await this.spawn()) return;
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  /** Whether the process came to serve. */
  private async spawn(): Promise<boolean> {
    const { name, agent, policy, env } = this.settings;
    const child = spawn(process.execPath, ['--import', PRELOAD, REPLICA_PROGRAM], {
      env: { ...inheritedEnvironment(), REPLICA: name, PGAPPNAME: `replica ${name}`, ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true, // Ctrl-C is for the run, which then ends its replicas itself
    });
    this.child = child;
    const { pid = -1 } = child;
    const served = new Promise<boolean>((resolve) => {
      for (const stream of [child.stdout, child.stderr]) {
        createInterface({ input: stream! }).on('line', (line) => {
          this.output.push(line);
          if (this.output.length > 500) this.output.splice(0, 250);
          if (/^replica \S+ serves /.test(line)) resolve(true);
        });
      }
      child.once('exit', () => resolve(false));
    });
    child.on('message', ({ lagFrom, lagTo }: FromReplica) => {
      this.lagMs += lagTo - lagFrom;
      this.recorder.write({ kind: 'lag', who: name, from: lagFrom, to: lagTo });
    });
    const timer = setTimeout(() => child.kill('SIGKILL'), BOOT_MS);
    const serves = await served;
    clearTimeout(timer);
    if (!serves) return false;
    this.recorder.write({ kind: 'process', replica: name, agent, policy, pid, phase: 'serves' });
    child.once('exit', (code, signal) => this.onExit(pid, code, signal));
    return true;
  }

  /** SIGKILL is ours, or that of a request that kills: any other end than one in order is a crash. */
  private onExit(pid: number, code: number | null, signal: NodeJS.Signals | null): void {
    const { name, agent, policy } = this.settings;
    this.recorder.write({ kind: 'process', replica: name, agent, policy, pid, phase: 'ended' });
    const inOrder = signal === 'SIGKILL' || (this.expected && code === 0);
    if (!inOrder) this.crashes.push(`replica ${name} ended with ${signal ?? code}: ${this.lastWords}`);
    this.expected = false;
    if (!this.stopped) void this.start();
  }
}

const isAlive = (child: ChildProcess | undefined): child is ChildProcess =>
  child?.exitCode === null && child.signalCode === null;
