import type { VersionedTaskStore } from '../tasks/task-store.js';
import type { Poller } from './poller.js';

const BATCH_ROWS = 1_000;
const MAX_PAUSE_MS = 60_000;

/**
 * Prunes the event log and the receipts of messages, in bounded batches and now and then: a tenth of the retention time
 * may pass in between.
 */
export class EventRetention {
  constructor(
    private readonly tasks: VersionedTaskStore,
    poller: Poller,
    private readonly retentionMs: number,
    private readonly messageIdWindowMs: number,
  ) {
    if (Number.isFinite(retentionMs)) poller.register(paused(retentionMs, () => this.pruneEvents()));
    if (messageIdWindowMs > 0) poller.register(paused(messageIdWindowMs, () => this.pruneReceipts()));
  }

  /** Prunes one batch of events; true if there may be more. */
  async pruneEvents(): Promise<boolean> {
    return (await this.tasks.pruneEvents(this.retentionMs, BATCH_ROWS)) === BATCH_ROWS;
  }

  /** The same for receipts that are out of their window. */
  async pruneReceipts(): Promise<boolean> {
    return (await this.tasks.pruneReceipts(this.messageIdWindowMs, BATCH_ROWS)) === BATCH_ROWS;
  }
}

/** A poll job that does something only now and then, and at once again while there is more to do. */
function paused(retentionMs: number, prune: () => Promise<boolean>): () => Promise<void> {
  const pauseMs = Math.min(retentionMs / 10, MAX_PAUSE_MS);
  let nextAt = performance.now() + pauseMs;
  return async () => {
    if (performance.now() < nextAt) return;
    if (!(await prune())) nextAt = performance.now() + pauseMs;
  };
}
