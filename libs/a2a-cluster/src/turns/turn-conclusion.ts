import { Injectable } from '@nestjs/common';
import { TaskState } from '@a2a-js/sdk';
import { causeOf, detailOf, messageOf } from '../errors/described.js';
import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { whileUnavailable } from '../async/while-unavailable.js';
import { LeasedEffectStore } from '../effects/leased-effect-store.js';
import { evidenceOf, type UnresolvedEffect, unresolvedEffects } from '../effects/unresolved-effects.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { TurnAbortedError } from '../errors/turn-aborted.error.js';
import { LeaseStore } from '../leases/lease-store.js';
import { racePoint } from '../race-points/race-points.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { isInterrupted, stateOf } from '../tasks/task-states.js';
import { canceled, failed, statusEvent, statusWithMessage } from './status-events.js';
import type { CommitLoop } from './commit-loop.js';
import type { TurnExecution } from './turn-execution.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** How the executor came back. */
export type ExecutorEnding = { kind: 'returned' } | { kind: 'threw'; error: unknown };

/**
 * Ends a turn, whether its executor has returned, thrown or never settled. Then the task is in a state that it may stay
 * in, all published events are stored, and the lease is gone.
 */
@Injectable()
export class TurnConclusion {
  private readonly logger = new LibraryLogger('A2AClusterTurn');

  constructor(
    private readonly stream: TaskEventStream,
    private readonly leases: LeaseStore,
    private readonly effects: LeasedEffectStore,
    private readonly options: ResolvedOptions,
  ) {}

  /** Never rejects: what goes wrong makes another replica decide how the task ends. */
  async conclude(turn: TurnExecution, ending: ExecutorEnding): Promise<void> {
    turn.concludes();
    const loop = turn.loop!;
    try {
      if (isShutdown(turn)) await turn.lastLook;
      // An executor that stood still past its deadline may come back before any timer tells.
      await turn.confirmLease();
      const handsOver = this.isToBeHandedOver(turn, loop);
      // The next replica could not know how the calls under way came out.
      if (handsOver) await turn.closeEffects(this.effectsMs);
      // A task that is not stored cannot be handed over: this stores a new one.
      if (handsOver) loop.begin();
      else await this.finish(turn, loop, ending);
      loop.close();
      await loop.drained();
      if (loop.isEnding) return;
      await (handsOver ? this.handOver(turn, loop) : this.release(turn, loop));
    } catch (error) {
      const lost =
        error instanceof LeaseLostError ? error : new LeaseLostError(turn.taskId, messageOf(error), { cause: error });
      turn.lost(lost);
      this.logger.warn(`${lost.message} Another replica decides how it ends.${causeOf(lost)}`);
    } finally {
      turn.stopRenewing();
    }
  }

  /** Publishes what is missing for the turn to be over. */
  private async finish(turn: TurnExecution, loop: CommitLoop, ending: ExecutorEnding): Promise<void> {
    const { signal, subject, reply, defect } = turn;
    if (signal.aborted) return this.finishAborted(turn, loop, signal.reason as TurnAbortedError);
    if (loop.isSealed) {
      if (ending.kind === 'threw')
        this.logger.error(`The executor threw after its turn had ended: ${detailOf(ending.error)}`);
      return;
    }
    if (subject.kind === 'cancel') {
      if (ending.kind === 'threw')
        this.logger.error(`cancelTask threw for task ${turn.taskId}: ${detailOf(ending.error)}`);
      loop.add(canceled(turn));
    } else if (defect || ending.kind === 'threw') {
      const error = defect ?? (ending as { error: unknown }).error;
      this.logger.error(`The executor failed on task ${turn.taskId}: ${detailOf(error)}`);
      await this.fail(turn, loop, `The agent failed: ${messageOf(error)}`);
    } else if (reply) {
      // A task that was set in motion, by this attempt or one before it, needs an end; otherwise the message is the answer.
      const state = loop.current?.status?.state;
      const running = state !== undefined && !isInterrupted(state);
      if (running) loop.add(statusWithMessage(turn, TaskState.TASK_STATE_COMPLETED, reply));
    } else if (isUnfinished(turn, loop)) {
      if (this.options.turns.unfinishedTurn === 'complete') {
        loop.add(statusEvent(turn, TaskState.TASK_STATE_COMPLETED, 'The agent returned without a final status.'));
      } else {
        await this.fail(turn, loop, 'The agent returned without bringing the task to an end or asking for anything.');
      }
    }
  }

  private async finishAborted(turn: TurnExecution, loop: CommitLoop, reason: TurnAbortedError): Promise<void> {
    if (reason.code === 'A2A_LEASE_LOST') throw reason;
    // A turn that is to be canceled ends CANCELED, whatever has stopped it.
    const toCancel = turn.cancellation !== undefined || turn.subject.kind === 'cancel';
    if (toCancel || reason.code === 'A2A_TASK_CANCELED') await this.endCanceled(turn, loop);
    else await this.fail(turn, loop, reason.message);
  }

  /** Ends the task FAILED, naming the outside actions whose outcome the turn does not know. */
  private async fail(turn: TurnExecution, loop: CommitLoop, text: string): Promise<void> {
    await turn.closeEffects(this.effectsMs);
    const mayHaveEffects = turn.hasEffects || turn.subject.again !== undefined;
    const unresolved = loop.key && mayHaveEffects ? await this.unresolved(turn, loop.key.taskNo) : [];
    const evidence = evidenceOf(unresolved);
    if (loop.add(failed(turn, text + evidence.text, evidence.metadata)) || !loop.isCanceling) return;
    // A cancel has come meanwhile. Only CANCELED ends the turn then, and what cleans up still needs the lease.
    await this.endCanceled(turn, loop);
  }

  /** CANCELED, once the executor has cleaned up or has had its time for it. */
  private async endCanceled(turn: TurnExecution, loop: CommitLoop): Promise<void> {
    await turn.cancellation;
    loop.add(canceled(turn));
  }

  /**
   * Tries for as long as an end is tried to be stored: a FAILED without them would say that nothing is unresolved. If they
   * cannot be read in that time, the lease is given up, and the recovery of the task reads them.
   */
  private async unresolved(turn: TurnExecution, taskNo: number): Promise<UnresolvedEffect[]> {
    const { taskId, turnId } = turn;
    const enoughAt = performance.now() + turn.retryMs;
    try {
      return await whileUnavailable(
        () => unresolvedEffects(this.effects, taskNo, turnId),
        // Renewals move the deadline meanwhile.
        () => performance.now() < Math.min(turn.deadline, enoughAt),
      );
    } catch (error) {
      if (error instanceof StoreUnavailableError) {
        throw new LeaseLostError(taskId, 'its unresolved effects could not be read before it ran out', {
          cause: error,
        });
      }
      this.logger.error(`Task ${taskId} ends FAILED without its unresolved effects: ${detailOf(error)}`);
      return [];
    }
  }

  /** A part of the time that a shutdown gives to the ends of its turns. */
  private get effectsMs(): number {
    return this.options.turns.cancelTimeoutMs / 2;
  }

  /** Stopped by the shutdown of this replica, in the middle of it and not for good. */
  private isToBeHandedOver(turn: TurnExecution, loop: CommitLoop): boolean {
    // With the policy 'fail' no other replica would run it again.
    if (this.options.sweeper.policy === 'fail' || turn.subject.kind !== 'message') return false;
    return isShutdown(turn) && !turn.cancellation && !turn.reply && !loop.isSealed;
  }

  /**
   * Lets another replica claim the lease at once. The claim fences the writes that this replica may still have under
   * way.
   */
  private async handOver(turn: TurnExecution, loop: CommitLoop): Promise<void> {
    const { taskNo, generation } = loop.key!;
    const { deadline } = turn;
    turn.stopRenewing();
    racePoint('hand-over.before');
    if (generation !== undefined) {
      await this.untilGone(turn.taskId, deadline, () => this.leases.handOver(generation, 0));
    }
    racePoint('hand-over.after');
    this.logger.log(`Handed the turn on task ${turn.taskId} over.`);
    this.stream.changed(taskNo);
    turn.handedOver(taskNo);
  }

  /** The lease alone goes: the task waits on, or the answer was a message. */
  private async release(turn: TurnExecution, loop: CommitLoop): Promise<void> {
    const { key } = loop;
    const { deadline } = turn;
    // From here on a lease that is gone is one that we released: no renewal round is to take it for a loss.
    turn.stopRenewing();
    const generation = key?.generation;
    if (generation !== undefined) {
      racePoint('release.before');
      await this.untilGone(turn.taskId, deadline, () => this.leases.release(generation));
      racePoint('release.after');
    }
    if (key) this.stream.changed(key.taskNo);
    turn.released();
  }

  /**
   * Lets the lease go. If an answer was lost and the repetition finds no lease, the first try has done it. Throws
   * {@link LeaseLostError} if somebody else has taken the lease.
   */
  private async untilGone(taskId: string, deadline: number, letGo: () => Promise<boolean>): Promise<void> {
    const isGone = await whileUnavailable(
      async (tries) => (await letGo()) || tries > 1,
      () => performance.now() < deadline,
    );
    if (!isGone) throw new LeaseLostError(taskId, 'another replica has claimed or ended it');
  }
}

/** Neither ended nor waiting: a task nobody published for, or one that is left in a running state. */
function isUnfinished({ subject }: TurnExecution, loop: CommitLoop): boolean {
  if (loop.published !== undefined) return !isInterrupted(loop.published);
  return !subject.followUp || !isInterrupted(stateOf(loop.current));
}

const isShutdown = ({ signal }: TurnExecution): boolean =>
  signal.aborted && (signal.reason as TurnAbortedError).code === 'A2A_REPLICA_SHUTDOWN';
