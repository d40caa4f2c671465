import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { LeasedEffectStore } from '../effects/leased-effect-store.js';
import { evidenceOf, unresolvedEffects } from '../effects/unresolved-effects.js';
import { ConcurrentTaskModificationError } from '../errors/concurrent-task-modification.error.js';
import { detailOf, messageOf } from '../errors/described.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { ReplicaDrainingError } from '../errors/replica-draining.error.js';
import type { ClaimedLease } from '../leases/lease-store.js';
import { racePoint } from '../race-points/race-points.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { applyEvent } from '../tasks/apply-event.js';
import type { Metadata, TaskEvent } from '../tasks/task-event.js';
import { copyEvent, copyTask, encodeTask } from '../tasks/task-event.codec.js';
import { headOf } from '../tasks/task-head.js';
import { isInterrupted, isTerminal, stateOf } from '../tasks/task-states.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import type { StoredTask, TaskScope } from '../tasks/task-store.js';
import { AbandonedRecovery } from '../turns/abandoned-recovery.js';
import { canceled, failed, type TaskIds } from '../turns/status-events.js';
import { AbandonedLeases, type Claim } from './abandoned-leases.js';
import { RequestNotRestoredError } from '../errors/request-not-restored.error.js';
import { ReExecution } from './re-execution.js';
import type { AbandonedTurn, RecoveryDecision } from '../options/recovery-policy.js';
import { askPolicy, refusalOf } from './recovery-policy.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { StaticOptions } from '../options/static.options.js';
import type { SweeperOptions } from '../options/sweeper.options.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** Key of the recovery's facts in the metadata of the status message that it writes. */
export const RECOVERY_METADATA_KEY = 'a2a-cluster/recovery';

/** The result of a recovery. */
export type RecoveryOutcome =
  | 'failed'
  | 'canceled'
  /** There was nothing to recover. */
  | 'dropped'
  /** Somebody else was faster. */
  | 'lost'
  | 'reExecuted'
  /** It is run again after its backoff. */
  | 'postponed'
  /** The policy has left it for a later sweep. */
  | 'left';

const MAX_BACKOFF_MS = 60_000;

/**
 * Decides about what a dead replica left, under a lease that was claimed for it. The lease is kept alive meanwhile: if
 * this replica dies too, the next one finds it.
 */
@Injectable()
export class AbandonedTurnRecovery extends AbandonedRecovery {
  private readonly logger = new LibraryLogger('A2AClusterRecovery');
  private readonly stopping = new AbortController();
  private readonly options: SweeperOptions;
  private readonly agentId: string;

  constructor(
    private readonly leases: AbandonedLeases,
    private readonly reExecution: ReExecution,
    private readonly tasks: LeasedTaskStore,
    private readonly effects: LeasedEffectStore,
    private readonly stream: TaskEventStream,
    { sweeper }: ResolvedOptions,
    { agentId }: StaticOptions,
  ) {
    super();
    this.options = sweeper;
    this.agentId = agentId;
  }

  override get isOn(): boolean {
    return this.leases.isOn;
  }

  /** Claims the expired lease of one task and recovers it. False where somebody else was faster, or no slot is free. */
  override async recoverTask(scope: TaskScope): Promise<boolean> {
    if (!this.isOn) return false;
    const slots = this.leases.takeSlots(1);
    // The lease of a task that waits is only dropped, which takes no slot.
    const waits = slots.length === 0 && (await this.tasks.find(scope))?.waiting === true;
    const claims = await this.leases.claim(1, slots, { scope, waits });
    for (const claim of claims) await this.recover(claim);
    return claims.length > 0;
  }

  /** Asks no policy any more: a turn that waits for one is let go of. */
  stop(): void {
    this.stopping.abort();
  }

  /** Decides about a claimed turn. Throws only what the next sweep may overcome: the lease then runs out again. */
  async recover(claim: Claim): Promise<RecoveryOutcome> {
    let runs = false;
    try {
      for (;;) {
        const { claimed } = claim;
        const stored = claimed.scope && (await this.tasks.find(claimed.scope));
        if (!stored || isSettled(stored, claimed)) {
          await this.leases.drop(claimed);
          if (stored) this.stream.changed(stored.taskNo);
          return 'dropped';
        }
        try {
          const outcome = await this.decide(stored, claim);
          runs = outcome === 'reExecuted';
          return outcome;
        } catch (error) {
          // Saved through the SDK's TaskStore meanwhile: decide again from what it is now.
          if (!(error instanceof ConcurrentTaskModificationError)) throw error;
        }
      }
    } catch (error) {
      if (error instanceof LeaseLostError) return 'lost';
      // It was not run: trouble on the way there uses up no attempt.
      await this.leases.putBack(claim.claimed, this.options.intervalMs).catch(() => undefined);
      throw error;
    } finally {
      if (!runs) {
        claim.held.drop();
        claim.slot?.release();
      }
    }
  }

  private async decide(stored: StoredTask, claim: Claim): Promise<RecoveryOutcome> {
    const { claimed } = claim;
    if (isCancel(claimed)) return this.end(stored, claimed, (ids) => canceled(ids), 'canceled');
    const turn = await this.describe(stored, claimed);
    const decision = await this.ask(turn);
    switch (decision.decision) {
      case 'fail': {
        const message = decision.message === undefined ? whatIsKnown(turn) : messageOf(decision.message);
        return this.fail(stored, claimed, turn, message);
      }
      case 'leave':
        return this.putBack(claimed, this.stopping.signal.aborted ? 0 : this.options.intervalMs);
      case 're-execute': {
        const refusal = refusalOf(turn);
        if (refusal) return this.fail(stored, claimed, turn, `${whatIsKnown(turn)} ${refusal}`);
        return this.reExecute(stored, claim, turn);
      }
    }
  }

  private async describe({ taskNo, task }: StoredTask, claimed: ClaimedLease): Promise<AbandonedTurn> {
    const { turnId, attempt, lastHolder, lastRenewedAt } = claimed;
    return {
      task,
      agentId: this.agentId,
      attempts: attempt - 1,
      maxAttempts: this.options.maxAttempts,
      lastHolder,
      lastHeartbeat: lastRenewedAt,
      unresolvedEffects: await unresolvedEffects(this.effects, taskNo, turnId),
    };
  }

  private async ask(turn: AbandonedTurn): Promise<RecoveryDecision> {
    try {
      // The policy gets a copy, which it may change.
      const unresolvedEffects = turn.unresolvedEffects.map((effect) => ({ ...effect }));
      const shown = { ...turn, task: copyTask(turn.task), unresolvedEffects };
      return await askPolicy(this.options.policy, shown, this.leases.ttlMs, this.stopping.signal);
    } catch (error) {
      this.logger.error(`The recovery policy failed for task ${turn.task.id}, which ends FAILED: ${detailOf(error)}`);
      return { decision: 'fail' };
    }
  }

  private async reExecute(stored: StoredTask, claim: Claim, turn: AbandonedTurn): Promise<RecoveryOutcome> {
    const { claimed, slot, held, sentAt } = claim;
    if (!slot) return this.putBack(claimed, this.options.intervalMs);
    try {
      const request = this.reExecution.restore(claimed);
      const waitMs = claimed.lastHolder === null ? 0 : this.backoffMs(claimed.attempt);
      if (waitMs > 0) return (await this.leases.postpone(claimed, waitMs)) ? 'postponed' : 'lost';
      racePoint('re-execution.before');
      const execution = await this.reExecution.start(claimed, stored, request, { held, sentAt });
      racePoint('re-execution.after');
      void execution.outcome.then(() => this.leases.freeSlot(slot));
      this.logger.log(`Running the turn on task ${stored.task.id} again (attempt ${claimed.attempt}).`);
      return 'reExecuted';
    } catch (error) {
      if (error instanceof ReplicaDrainingError) return this.putBack(claimed, 0);
      if (!(error instanceof RequestNotRestoredError)) throw error;
      return this.fail(stored, claimed, turn, `${whatIsKnown(turn)} ${error.message}`);
    }
  }

  /**
   * Grows with each attempt; a part of it is left to chance, so that what died together does not come back together.
   */
  private backoffMs(attempt: number): number {
    const full = Math.min(this.options.backoffMs * 2 ** (attempt - 2), MAX_BACKOFF_MS);
    return Math.round(full * (1 - Math.random() / 2));
  }

  private async putBack(claimed: ClaimedLease, afterMs: number): Promise<RecoveryOutcome> {
    return (await this.leases.putBack(claimed, afterMs)) ? 'left' : 'lost';
  }

  private fail(
    stored: StoredTask,
    claimed: ClaimedLease,
    turn: AbandonedTurn,
    message: string,
  ): Promise<RecoveryOutcome> {
    const { lastHolder, attempts } = turn;
    const evidence = evidenceOf(turn.unresolvedEffects);
    const facts: Metadata = { lastHolder, lastHeartbeat: turn.lastHeartbeat.toISOString(), attempts };
    const metadata = { [RECOVERY_METADATA_KEY]: facts, ...evidence.metadata };
    return this.end(stored, claimed, (ids) => failed(ids, message + evidence.text, metadata), 'failed');
  }

  private async end(
    stored: StoredTask,
    claimed: ClaimedLease,
    ending: (ids: TaskIds) => TaskEvent,
    outcome: RecoveryOutcome,
  ): Promise<RecoveryOutcome> {
    const { taskNo, task } = stored;
    const { event, text } = copyEvent(ending({ taskId: task.id, contextId: task.contextId }));
    const ended = applyEvent(task, event);
    racePoint('recovery-end.before');
    const version = await this.tasks.append({ taskNo, taskId: task.id }, [event], {
      expectedVersion: stored.version,
      generation: claimed.generation,
      endsTurn: true,
      commitId: randomUUID(),
      texts: [text],
      snapshot: encodeTask(ended),
      head: headOf(ended),
    });
    racePoint('recovery-end.after');
    this.stream.committed(taskNo, [{ version, event, bytes: text.length }]);
    return outcome;
  }
}

/** A cancel turn has no other purpose, whether or not its flag was seen. */
const isCancel = ({ cancelRequested, kind }: ClaimedLease): boolean => cancelRequested || kind === 'cancel';

/**
 * Nothing to end: the task is over, or it waits for its client because this very turn said so. Unless it is to be
 * canceled: a cancel that was asked for is not forgotten because the task waits (O51).
 */
function isSettled({ task, stateVersion }: StoredTask, claimed: ClaimedLease): boolean {
  const state = stateOf(task);
  if (isTerminal(state)) return true;
  return !isCancel(claimed) && isInterrupted(state) && stateVersion > claimed.admittedVersion;
}

function whatIsKnown({ lastHolder, lastHeartbeat, attempts }: AbandonedTurn): string {
  const at = lastHeartbeat.toISOString();
  return lastHolder === null
    ? `This task was handed over to be gone on with by any replica, after a last heartbeat at ${at}.`
    : `The replica that worked on this task is gone: ${lastHolder} sent its last heartbeat at ${at} ` +
        `and its lease has run out (attempt ${attempts}).`;
}
