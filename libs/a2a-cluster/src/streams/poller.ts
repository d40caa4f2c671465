import { Injectable } from '@nestjs/common';
import { messageOf } from '../errors/described.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** A look at the database that makes lost wake-ups cost no more than the poll interval. */
export type PollJob = () => Promise<void>;

interface Entry {
  job: PollJob;
  running: Promise<void> | undefined;
}

/** One timer for everything that is polled. No job overlaps itself, and none waits for a slow other. */
@Injectable()
export class Poller {
  private readonly logger = new LibraryLogger('A2AClusterPoller');
  private readonly jobs: Entry[] = [];
  private timer: NodeJS.Timeout | undefined;
  private stopped = false;

  readonly intervalMs: number;

  constructor({ streams }: ResolvedOptions) {
    this.intervalMs = streams.pollIntervalMs;
  }

  register(job: PollJob): void {
    this.jobs.push({ job, running: undefined });
  }

  start(): void {
    if (this.timer || this.stopped) return;
    this.timer = setInterval(() => void this.runOnce(), this.intervalMs);
  }

  /** One round of every job; one that still runs is joined. A failure is logged: the next round tries again. */
  async runOnce(): Promise<void> {
    await Promise.all(this.jobs.map((entry) => (entry.running ??= this.run(entry))));
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearInterval(this.timer);
    for (const { running } of this.jobs) await running;
  }

  private async run(entry: Entry): Promise<void> {
    try {
      await entry.job();
    } catch (error) {
      if (!this.stopped) this.logger.warn(`A poll failed, the next one follows: ${messageOf(error)}`);
    } finally {
      entry.running = undefined;
    }
  }
}
