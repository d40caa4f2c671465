import { randomUUID } from 'node:crypto';
import { ConcurrentTaskModificationError } from '../errors/concurrent-task-modification.error.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import type { Heartbeat, HeldLease, LeaseHolder } from '../leases/heartbeat.js';
import type { ClaimedLease, LeaseStore } from '../leases/lease-store.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import { applyEvent } from '../tasks/apply-event.js';
import type { Metadata, TaskEvent } from '../tasks/task-event.js';
import { copyEvent, encodeTask } from '../tasks/task-event.codec.js';
import { isInterrupted, isTerminal } from '../tasks/task-states.js';
import type { StoredTask, TaskScope, VersionedTaskStore } from '../tasks/task-store.js';
import { canceled, failed } from '../turns/status-events.js';

/** Key of the recovery's facts in the metadata of the status message that it writes. */
export const RECOVERY_METADATA_KEY = 'a2a-cluster/recovery';

/** What became of an abandoned turn. */
export type RecoveryOutcome = 'failed' | 'canceled' | 'dropped' | 'lost';

/** A recovery has nothing to stop: what it writes is fenced, and a cancel asked for meanwhile finds the task ended. */
const NOBODY_TO_TELL: LeaseHolder = { onLost: () => undefined, onCancelRequested: () => undefined };

/**
 * Ends what a dead replica left, under a lease that was claimed for it. The lease is kept alive meanwhile: if this
 * replica dies too, the next one finds it.
 */
export class AbandonedTurnRecovery {
  constructor(
    private readonly tasks: VersionedTaskStore,
    private readonly leases: LeaseStore,
    private readonly stream: TaskEventStream,
    private readonly heartbeat: Heartbeat,
  ) {}

  /** Claims the expired lease of one task and recovers it. False where somebody else was faster. */
  async recoverTask(scope: TaskScope): Promise<boolean> {
    const sentAt = performance.now();
    const { holderId: holder, times } = this.heartbeat;
    const [claimed] = await this.leases.claim({ holder, ttlMs: times.ttlMs, limit: 1, scope });
    if (claimed) await this.recover(claimed, this.hold(claimed, sentAt));
    return claimed !== undefined;
  }

  /** Keeps a claimed lease alive from the claim on, however long its turn has to wait for the others of its batch. */
  hold(claimed: ClaimedLease, sentAt: number): HeldLease {
    return this.heartbeat.hold(claimed.generation, sentAt, NOBODY_TO_TELL);
  }

  /** Brings a claimed turn to its end. Throws only what the next sweep may overcome: the lease then runs out again. */
  async recover(claimed: ClaimedLease, held: HeldLease): Promise<RecoveryOutcome> {
    try {
      for (;;) {
        const stored = claimed.scope && (await this.tasks.find(claimed.scope));
        if (!stored || isSettled(stored, claimed)) {
          await this.leases.release(claimed.generation);
          if (stored) this.stream.changed(stored.taskNo);
          return 'dropped';
        }
        try {
          return await this.end(stored, claimed);
        } catch (error) {
          // Saved through the SDK's TaskStore meanwhile: decide again from what it is now.
          if (!(error instanceof ConcurrentTaskModificationError)) throw error;
        }
      }
    } catch (error) {
      if (error instanceof LeaseLostError) return 'lost';
      throw error;
    } finally {
      held.drop();
    }
  }

  private async end(stored: StoredTask, claimed: ClaimedLease): Promise<RecoveryOutcome> {
    const ids = { taskId: stored.task.id, contextId: stored.task.contextId };
    const cancel = isCancel(claimed);
    const { event, bytes } = copyEvent(cancel ? canceled(ids) : failed(ids, ...whatIsKnown(claimed)));
    const version = await this.append(stored, claimed, event);
    this.stream.committed(stored.taskNo, [{ version, event, bytes }]);
    return cancel ? 'canceled' : 'failed';
  }

  private append({ taskNo, version, task }: StoredTask, claimed: ClaimedLease, event: TaskEvent): Promise<number> {
    return this.tasks.append({ taskNo, taskId: task.id }, [event], {
      ...{ expectedVersion: version, generation: claimed.generation, endsTurn: true, commitId: randomUUID() },
      snapshot: encodeTask(applyEvent(task, event)),
    });
  }
}

/** A cancel turn has no other purpose, whether or not its flag was seen. */
const isCancel = ({ cancelRequested, kind }: ClaimedLease): boolean => cancelRequested || kind === 'cancel';

/**
 * Nothing to end: the task is over, or it waits for its client because this very turn said so. Unless it is to be
 * canceled: a cancel that was asked for is not forgotten because the task waits (O51).
 */
function isSettled({ task, stateVersion }: StoredTask, claimed: ClaimedLease): boolean {
  const state = task.status?.state ?? 0;
  if (isTerminal(state)) return true;
  return !isCancel(claimed) && isInterrupted(state) && stateVersion > claimed.admittedVersion;
}

function whatIsKnown({ lastHolder, lastRenewedAt, attempts }: ClaimedLease): [string, Metadata] {
  const lastHeartbeat = lastRenewedAt.toISOString();
  const holder = lastHolder ?? 'none';
  return [
    `The replica that worked on this task is gone: ${holder} sent its last heartbeat at ${lastHeartbeat} ` +
      `and its lease has run out (attempt ${attempts}).`,
    { [RECOVERY_METADATA_KEY]: { lastHolder, lastHeartbeat, attempts } },
  ];
}
