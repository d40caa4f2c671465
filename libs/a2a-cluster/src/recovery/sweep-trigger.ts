import { randomUUID } from 'node:crypto';
import { Injectable, Optional } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { messageOf } from '../errors/described.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { AbandonedTaskSweeper } from './abandoned-task.sweeper.js';
import { InterruptedTaskTimeout } from './interrupted-task.timeout.js';
import type { Sweeper } from './sweeper.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** How far a sweep may come early, as a part of the interval: replicas that started together drift apart. */
const JITTER = 0.2;

/**
 * Runs the sweepers through `@nestjs/schedule`'s registry, where the app can see and stop it. Its name is its own per
 * instance. The next sweep is set once the last one is over, so none overlaps, and never later than the interval.
 */
@Injectable()
export class SweepTrigger {
  readonly jobName = `a2a-cluster.sweep.${randomUUID()}`;
  private readonly logger = new LibraryLogger('A2AClusterSweepTrigger');
  private stopped = false;
  /** Monotonic time of the sweep that is set. */
  private setFor = Infinity;

  private readonly intervalMs: number;
  private readonly sweepers: readonly Sweeper[];

  constructor(
    abandoned: AbandonedTaskSweeper,
    interrupted: InterruptedTaskTimeout,
    { sweeper: { intervalMs } }: ResolvedOptions,
    @Optional() private readonly registry?: SchedulerRegistry,
  ) {
    this.intervalMs = intervalMs;
    const sweepers: Sweeper[] = [abandoned, interrupted];
    this.sweepers = sweepers.filter(({ isOn }) => isOn);
    if (this.sweepers.length > 0 && !registry) {
      throw new ClusterOptionsError(
        'sweeper',
        "A2AClusterModule's sweeper needs @nestjs/schedule: import ScheduleModule.forRoot().",
      );
    }
    for (const sweeper of this.sweepers) sweeper.onDue?.(() => this.hasten());
  }

  start(): void {
    if (this.stopped || this.sweepers.length === 0) return;
    this.set(Math.min(performance.now() + this.intervalMs * (1 - JITTER * Math.random()), this.dueAt));
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.forget();
    for (const sweeper of this.sweepers) await sweeper.stop();
  }

  /** Brings the next sweep forward if something is due before it. */
  private hasten(): void {
    if (!this.registry!.doesExist('timeout', this.jobName) || this.dueAt >= this.setFor) return;
    this.forget();
    this.set(this.dueAt);
  }

  private get dueAt(): number {
    return Math.min(...this.sweepers.map(({ nextDueAt = Infinity }) => nextDueAt));
  }

  private set(at: number): void {
    this.setFor = at;
    const delayMs = Math.max(0, Math.ceil(at - performance.now()));
    this.registry!.addTimeout(
      this.jobName,
      setTimeout(() => void this.tick(), delayMs),
    );
  }

  private async tick(): Promise<void> {
    for (const result of await Promise.allSettled(this.sweepers.map((sweeper) => sweeper.runOnce()))) {
      if (result.status === 'rejected') {
        this.logger.warn(`A sweep failed, the next one follows: ${messageOf(result.reason)}`);
      }
    }
    this.forget();
    this.start();
  }

  private forget(): void {
    if (this.registry!.doesExist('timeout', this.jobName)) this.registry!.deleteTimeout(this.jobName);
  }
}
