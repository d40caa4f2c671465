import { Injectable } from '@nestjs/common';
import { detailOf } from '../errors/described.js';
import { AbandonedLeases, type Claim } from './abandoned-leases.js';
import { AbandonedTurnRecovery, type RecoveryOutcome } from './abandoned-turn.recovery.js';
import type { RecoverySlot } from './recovery-slots.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** The counts of one sweep. */
export interface SweepResult extends Record<RecoveryOutcome, number> {
  claimed: number;
  /** Left as they were because of an error, which was logged: their leases run out once more. */
  errors: number;
}

/** How many abandoned turns are decided about at the same time. */
const CONCURRENCY = 4;

/**
 * Finds the turns whose replica has died and does about them what the policy says. Every replica runs one; each expired
 * lease is claimed by exactly one of them.
 */
@Injectable()
export class AbandonedTaskSweeper {
  private readonly logger = new LibraryLogger(AbandonedTaskSweeper.name);
  private running: Promise<SweepResult> | undefined;
  private stopped = false;

  constructor(
    private readonly leases: AbandonedLeases,
    private readonly recovery: AbandonedTurnRecovery,
    private readonly options: ResolvedOptions,
  ) {}

  /** Whether there is anything to sweep: leases are on. */
  get isOn(): boolean {
    return this.leases.isOn;
  }

  /** One sweep: claims and ends whatever has expired. Called while one runs, it joins that one. */
  runOnce(): Promise<SweepResult> {
    this.running ??= this.sweep().finally(() => (this.running = undefined));
    return this.running;
  }

  /** Claims nothing more; resolves when what was claimed is done. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.recovery.stop();
    await this.running?.catch(() => undefined);
  }

  /** Monotonic time at which a sweep has something to do for certain. */
  get nextDueAt(): number {
    return this.leases.nextDueAt;
  }

  /** Registers for whenever `nextDueAt` may have come nearer. */
  onDue(listener: () => void): void {
    this.leases.onDue(listener);
  }

  private async sweep(): Promise<SweepResult> {
    const result: SweepResult = {
      claimed: 0,
      failed: 0,
      canceled: 0,
      dropped: 0,
      lost: 0,
      errors: 0,
      reExecuted: 0,
      postponed: 0,
      left: 0,
    };
    this.leases.sweepBegins();
    const { batchSize } = this.options.sweeper;
    while (!this.stopped && (await this.sweepBatch(batchSize, [], result)) === batchSize);
    // A turn that is run again takes a slot before it is claimed.
    for (let slots = this.takeSlots(); slots.length > 0; slots = this.takeSlots()) {
      if ((await this.sweepBatch(slots.length, slots, result)) < slots.length) break;
    }
    if (result.claimed > 0) this.logger.log(`Swept ${result.claimed} abandoned turns: ${JSON.stringify(result)}`);
    return result;
  }

  private takeSlots(): RecoverySlot[] {
    return this.stopped ? [] : this.leases.takeSlots(this.options.sweeper.batchSize);
  }

  private async sweepBatch(limit: number, slots: RecoverySlot[], result: SweepResult): Promise<number> {
    const batch = await this.leases.claim(limit, slots);
    result.claimed += batch.length;
    await this.recoverAll(batch, result);
    return batch.length;
  }

  /** One failing task does not stop the others. */
  private async recoverAll(batch: Claim[], result: SweepResult): Promise<void> {
    const left = [...batch];
    const worker = async (): Promise<void> => {
      for (let next = left.shift(); next; next = left.shift()) {
        if (this.stopped) {
          await this.leases.giveBack(next);
          continue;
        }
        try {
          result[await this.recovery.recover(next)] += 1;
        } catch (error) {
          result.errors += 1;
          this.logger.error(
            `Task ${next.claimed.scope?.taskId} was abandoned and could not be recovered: ${detailOf(error)}`,
          );
        }
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  }
}
