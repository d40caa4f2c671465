import { Logger } from '@nestjs/common';

/** A look at the database that makes lost wake-ups cost no more than the poll interval. */
export type PollJob = () => Promise<void>;

/** One timer for everything that is polled; a round never overlaps the one before. */
export class Poller {
  private readonly logger = new Logger('A2AClusterPoller');
  private readonly jobs: PollJob[] = [];
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;
  private stopped = false;

  constructor(readonly intervalMs: number) {}

  register(job: PollJob): void {
    this.jobs.push(job);
  }

  start(): void {
    if (this.timer || this.stopped) return;
    this.timer = setInterval(() => void this.runOnce(), this.intervalMs);
  }

  /** One round of every job. A failure is logged: the next round tries again. */
  runOnce(): Promise<void> {
    this.running ??= this.round().finally(() => (this.running = undefined));
    return this.running;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearInterval(this.timer);
    await this.running;
  }

  private async round(): Promise<void> {
    for (const result of await Promise.allSettled(this.jobs.map((job) => job()))) {
      if (result.status === 'rejected' && !this.stopped) {
        this.logger.warn(`A poll failed, the next one follows: ${String(result.reason)}`);
      }
    }
  }
}
