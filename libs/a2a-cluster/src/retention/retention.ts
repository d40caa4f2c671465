import type { EffectStore } from '../effects/effect-store.js';
import type { LeaseStore } from '../leases/lease-store.js';
import type { Poller } from '../streams/poller.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';

/** How long what is over is kept, in ms; `Infinity`: for ever. */
export interface RetentionTimes {
  /** Events that the snapshot contains and every push receiver has. */
  eventsMs: number;
  /** Receipts of messages; 0: there are none. */
  receiptsMs: number;
  /** Effects of turns that are over. */
  effectsMs: number;
  /** Tasks that have ended. */
  tasksMs: number;
  /** What the lease store remembers of replicas that are gone. */
  replicasMs: number;
}

const BATCH_ROWS = 1_000;
const MAX_PAUSE_MS = 60_000;

type Prune = (olderThanMs: number, limit: number) => Promise<number>;

/**
 * Prunes what is over, in bounded batches of a transaction each, and now and then: a tenth of the time that it is kept for
 * may pass in between. Any replica may do it, several at once too.
 */
export class Retention {
  constructor(
    tasks: VersionedTaskStore,
    effects: EffectStore,
    leases: LeaseStore,
    poller: Poller,
    times: RetentionTimes,
  ) {
    const jobs: [number, Prune][] = [
      [times.eventsMs, (...batch) => tasks.pruneEvents(...batch)],
      [times.receiptsMs, (...batch) => tasks.pruneReceipts(...batch)],
      [times.effectsMs, (...batch) => effects.prune(...batch)],
      [times.tasksMs, (...batch) => tasks.pruneTasks(...batch)],
      [times.replicasMs, (...batch) => leases.prune(...batch)],
    ];
    for (const [keptMs, prune] of jobs) {
      if (keptMs > 0 && keptMs !== Infinity) poller.register(nowAndThen(keptMs, prune));
    }
  }
}

/** A poll job that does something only now and then, and at once again while there is more to do. */
function nowAndThen(keptMs: number, prune: Prune): () => Promise<void> {
  const pauseMs = Math.min(keptMs / 10, MAX_PAUSE_MS);
  let nextAt = performance.now() + pauseMs;
  return async () => {
    if (performance.now() < nextAt) return;
    if ((await prune(keptMs, BATCH_ROWS)) < BATCH_ROWS) nextAt = performance.now() + pauseMs;
  };
}
