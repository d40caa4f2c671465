import type { VersionedTaskStore } from '../tasks/task-store.js';
import type { Poller } from './poller.js';

const BATCH_EVENTS = 1_000;
const MAX_PAUSE_MS = 60_000;

/** Prunes the event log, in bounded batches and now and then: a tenth of the retention time may pass in between. */
export class EventRetention {
  private nextAt: number;
  private readonly pauseMs: number;

  constructor(
    private readonly tasks: VersionedTaskStore,
    poller: Poller,
    private readonly retentionMs: number,
  ) {
    this.pauseMs = Math.min(retentionMs / 10, MAX_PAUSE_MS);
    this.nextAt = performance.now() + this.pauseMs;
    if (Number.isFinite(retentionMs)) poller.register(() => this.runIfDue());
  }

  /** Prunes one batch; true if there may be more. */
  async runOnce(): Promise<boolean> {
    return (await this.tasks.pruneEvents(this.retentionMs, BATCH_EVENTS)) === BATCH_EVENTS;
  }

  private async runIfDue(): Promise<void> {
    if (performance.now() < this.nextAt) return;
    const more = await this.runOnce();
    if (!more) this.nextAt = performance.now() + this.pauseMs;
  }
}
