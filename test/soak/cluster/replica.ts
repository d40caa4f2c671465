import {
  describeExit,
  inheritedEnvironment,
  type ProcessExit,
  ReplicaProcess,
} from '../../../tools/harness/replica-process.js';
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
  private process: ReplicaProcess | undefined;
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
    this.process?.signal(name);
  }

  /** Ends it by this signal, and resolves when the next process serves. */
  async replace(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    await this.end(signal);
    await this.serving;
  }

  /** Ends its process by this signal. One that does not obey in time is a crash, and is killed. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const { process } = this;
    if (!process?.isAlive) return;
    this.expected = true;
    process.signal(signal);
    const until = performance.now() + END_MS - this.lagMs;
    let timer: NodeJS.Timeout;
    const look = (): void => {
      const leftMs = until + this.lagMs - performance.now();
      if (leftMs > 0) timer = setTimeout(look, leftMs);
      else {
        this.crashes.push(`replica ${this.name} had not ended ${END_MS} ms after ${signal}: ${this.lastWords}`);
        process.signal('SIGKILL');
      }
    };
    timer = setTimeout(look, END_MS);
    await process.exited;
    clearTimeout(timer);
  }

  private get lastWords(): string {
    return this.process?.tail(8).replaceAll('\n', ' | ') ?? '';
  }

  tell(message: ToReplica): void {
    if (this.process?.child.connected) this.process.child.send(message, () => undefined);
  }

  /** Ends it for good: in order if it does so within the time, else not. */
  async stop(graceMs: number): Promise<number | null> {
    this.stopped = true;
    this.expected = true;
    const { process } = this;
    if (!process?.isAlive) return process?.child.exitCode ?? null;
    process.signal('SIGCONT');
    process.signal(graceMs > 0 ? 'SIGTERM' : 'SIGKILL');
    const timer = setTimeout(() => process.signal('SIGKILL'), graceMs);
    const { code } = await process.exited;
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
    const process = ReplicaProcess.spawn(name, {
      env: { ...inheritedEnvironment(), PGAPPNAME: `replica ${name}`, ...env },
      preload: PRELOAD,
      ipc: true,
      detached: true,
      keptLines: 250,
    });
    this.process = process;
    process.child.on('message', ({ lagFrom, lagTo }: FromReplica) => {
      this.lagMs += lagTo - lagFrom;
      this.recorder.write({ kind: 'lag', who: name, from: lagFrom, to: lagTo });
    });
    try {
      await process.serves(BOOT_MS);
    } catch {
      await process.kill();
      return false;
    }
    const { pid } = process;
    this.recorder.write({ kind: 'process', replica: name, agent, policy, pid, phase: 'serves' });
    void process.exited.then((exit) => this.onExit(pid, exit));
    return true;
  }

  /** SIGKILL is ours, or that of a request that kills: any other end than one in order is a crash. */
  private onExit(pid: number, { code, signal }: ProcessExit): void {
    const { name, agent, policy } = this.settings;
    this.recorder.write({ kind: 'process', replica: name, agent, policy, pid, phase: 'ended' });
    const inOrder = signal === 'SIGKILL' || (this.expected && code === 0);
    if (!inOrder) this.crashes.push(`replica ${name} ended with ${describeExit({ code, signal })}: ${this.lastWords}`);
    this.expected = false;
    if (!this.stopped) void this.start();
  }
}
