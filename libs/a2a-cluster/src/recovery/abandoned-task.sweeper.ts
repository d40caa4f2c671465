import { Logger } from '@nestjs/common';
import type { Heartbeat } from '../leases/heartbeat.js';
import type { ClaimedLease, LeaseStore } from '../leases/lease-store.js';
import type { AbandonedTurnRecovery, RecoveryOutcome } from './abandoned-turn.recovery.js';
import type { SweeperOptions } from './sweeper-options.js';

/** What one sweep did. */
export interface SweepResult extends Record<RecoveryOutcome, number> {
  claimed: number;
  /** Left as they were because of an error, which was logged: their leases run out once more. */
  errors: number;
}

/** How many abandoned turns are ended at the same time. */
const CONCURRENCY = 4;

/**
 * Finds the turns whose replica has died and ends their tasks. Every replica runs one; each expired lease is claimed by
 * exactly one of them.
 */
export class AbandonedTaskSweeper {
  private readonly logger = new Logger(AbandonedTaskSweeper.name);
  private running: Promise<SweepResult> | undefined;
  private stopped = false;

  constructor(
    private readonly leases: LeaseStore,
    private readonly recovery: AbandonedTurnRecovery,
    private readonly heartbeat: Heartbeat,
    private readonly options: SweeperOptions,
  ) {}

  /** One sweep: claims and ends whatever has expired. Called while one runs, it joins that one. */
  runOnce(): Promise<SweepResult> {
    this.running ??= this.sweep().finally(() => (this.running = undefined));
    return this.running;
  }

  /** Claims nothing more; resolves when what was claimed is done. */
  async stop(): Promise<void> {
    this.stopped = true;
    await this.running?.catch(() => undefined);
  }

  private async sweep(): Promise<SweepResult> {
    const result: SweepResult = { claimed: 0, failed: 0, canceled: 0, dropped: 0, lost: 0, errors: 0 };
    const { batchSize } = this.options;
    while (!this.stopped) {
      const sentAt = performance.now();
      const { holderId: holder, times } = this.heartbeat;
      const batch = await this.leases.claim({ holder, ttlMs: times.ttlMs, limit: batchSize });
      result.claimed += batch.length;
      await this.recoverAll(batch, sentAt, result);
      if (batch.length < batchSize) break;
    }
    if (result.claimed > 0) this.logger.log(`Swept ${result.claimed} abandoned turns: ${JSON.stringify(result)}`);
    return result;
  }

  /** One failing task does not stop the others. */
  private async recoverAll(batch: ClaimedLease[], sentAt: number, result: SweepResult): Promise<void> {
    const left = batch.map((claimed) => ({ claimed, held: this.recovery.hold(claimed, sentAt) }));
    const worker = async (): Promise<void> => {
      for (let next = left.shift(); next; next = left.shift()) {
        try {
          result[await this.recovery.recover(next.claimed, next.held)] += 1;
        } catch (error) {
          result.errors += 1;
          const detail = error instanceof Error ? error.stack : String(error);
          this.logger.error(`Task ${next.claimed.scope?.taskId} was abandoned and could not be ended: ${detail}`);
        }
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  }
}
