import { Injectable } from '@nestjs/common';
import { EffectStore } from '../effects/effect-store.js';
import { LeaseStore } from '../leases/lease-store.js';
import { Poller } from '../streams/poller.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { ResolvedOptions } from '../options/cluster.options.js';

/** How long the row of a replica without leases is kept, in ms: a day to look at it. */
const REPLICAS_KEPT_MS = 24 * 3_600_000;

const BATCH_ROWS = 1_000;
const MAX_PAUSE_MS = 60_000;

type Prune = (olderThanMs: number, limit: number) => Promise<number>;

/**
 * Prunes what is over, in bounded batches of a transaction each, and now and then: a tenth of the time that it is kept for
 * may pass in between. Any replica may do it, several at once too.
 */
@Injectable()
export class Retention {
  constructor(
    tasks: VersionedTaskStore,
    effects: EffectStore,
    leases: LeaseStore,
    poller: Poller,
    { retention, streams, turns }: ResolvedOptions,
  ) {
    const jobs: [number, Prune][] = [
      [streams.retentionMs, (...batch) => tasks.pruneEvents(...batch)],
      [turns.messageIdWindowMs, (...batch) => tasks.pruneReceipts(...batch)],
      [retention.effectsMs, (...batch) => effects.prune(...batch)],
      [retention.tasksMs, (...batch) => tasks.pruneTasks(...batch)],
      [REPLICAS_KEPT_MS, (...batch) => leases.prune(...batch)],
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
