import { Logger } from '@nestjs/common';
import { TaskState } from '@a2a-js/sdk';
import { causeOf, detailOf, messageOf } from '../errors/described.js';
import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { Backoff } from '../async/backoff.js';
import type { EffectStore } from '../effects/effect-store.js';
import { evidenceOf, type UnresolvedEffect, unresolvedEffects } from '../effects/unresolved-effects.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { TurnAbortedError } from '../errors/turn-aborted.error.js';
import type { LeaseStore } from '../leases/lease-store.js';
import { racePoint } from '../race-points/race-points.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import { isInterrupted } from '../tasks/task-states.js';
import { canceled, failed, statusEvent, statusWithMessage } from './status-events.js';
import type { TurnExecution } from './turn-execution.js';
import type { TurnOptions } from '../options/turn.options.js';

/** How the executor came back. */
export type ExecutionOutcome = { kind: 'returned' } | { kind: 'threw'; error: unknown };

/**
 * Ends a turn whichever way its executor came back, or did not: the task reaches a state it may stay in, what was
 * published is stored, and the lease is gone.
 */
export class TurnConclusion {
  private readonly logger = new Logger('A2AClusterTurn');

  constructor(
    private readonly stream: TaskEventStream,
    private readonly leases: LeaseStore | undefined,
    private readonly effects: EffectStore,
    private readonly options: TurnOptions,
    /** Whether a turn that a shutdown stops goes on at another replica, instead of ending FAILED. */
    private readonly handsOver: boolean,
  ) {}

  async conclude(execution: TurnExecution, outcome: ExecutionOutcome): Promise<void> {
    const loop = execution.loop!;
    clearTimeout(execution.timer);
    try {
      if (isShutdown(execution)) await execution.lastLook;
      // An executor that stood still past its deadline may come back before any timer tells.
      await execution.confirmLease();
      const handsOver = this.isToBeHandedOver(execution);
      // Whoever goes on with it would not know how the calls under way came out.
      if (handsOver) await execution.closeEffects(this.effectsMs);
      // What nobody knows of cannot be handed over: a new task begins with it.
      if (handsOver) loop.begin();
      else await this.finish(execution, outcome);
      loop.close();
      await loop.drained();
      if (loop.isEnding) return;
      await (handsOver ? this.handOver(execution) : this.letGo(execution));
    } catch (error) {
      const lost =
        error instanceof LeaseLostError
          ? error
          : new LeaseLostError(execution.taskId, messageOf(error), { cause: error });
      loop.refuse(lost);
      execution.abort(lost);
      this.logger.warn(`${lost.message} Another replica decides how it ends.${causeOf(lost)}`);
      execution.ended.resolve({ kind: 'lost', taskNo: loop.key?.taskNo });
      execution.opened.reject(lost);
    } finally {
      execution.lease?.drop();
    }
  }

  /** Publishes what is missing for the turn to be over. */
  private async finish(execution: TurnExecution, outcome: ExecutionOutcome): Promise<void> {
    const loop = execution.loop!;
    const { signal, subject, reply, defect } = execution;
    if (signal.aborted) return this.finishAborted(execution, signal.reason as TurnAbortedError);
    if (loop.isSealed) {
      if (outcome.kind === 'threw')
        this.logger.error(`The executor threw after its turn had ended: ${detailOf(outcome.error)}`);
      return;
    }
    const ids = { taskId: execution.taskId, contextId: execution.contextId };
    if (subject.kind === 'cancel') {
      if (outcome.kind === 'threw')
        this.logger.error(`cancelTask threw for task ${ids.taskId}: ${detailOf(outcome.error)}`);
      loop.add(canceled(ids));
    } else if (defect || outcome.kind === 'threw') {
      const error = defect ?? (outcome as { error: unknown }).error;
      this.logger.error(`The executor failed on task ${ids.taskId}: ${detailOf(error)}`);
      await this.fail(execution, `The agent failed: ${messageOf(error)}`);
    } else if (reply) {
      // A task that was set in motion, by this attempt or one before it, needs an end; otherwise the message is the answer.
      const state = loop.current?.status?.state;
      const running = state !== undefined && !isInterrupted(state);
      if (running) loop.add(statusWithMessage(ids, TaskState.TASK_STATE_COMPLETED, reply));
    } else if (this.isUnfinished(execution)) {
      if (this.options.unfinishedTurn === 'complete') {
        loop.add(statusEvent(ids, TaskState.TASK_STATE_COMPLETED, 'The agent returned without a final status.'));
      } else {
        await this.fail(execution, 'The agent returned without bringing the task to an end or asking for anything.');
      }
    }
  }

  private async finishAborted(execution: TurnExecution, reason: TurnAbortedError): Promise<void> {
    const loop = execution.loop!;
    if (reason.code === 'LEASE_LOST') throw reason;
    // Whatever stops a turn that is to be canceled: its task was asked to be CANCELED.
    const toCancel = execution.cancellation !== undefined || execution.subject.kind === 'cancel';
    await execution.cancellation;
    if (toCancel || reason.code === 'TASK_CANCELED') loop.add(canceled(execution));
    else await this.fail(execution, reason.message);
  }

  /** FAILED, with what the turn dispatched to the outside and knows no outcome of. */
  private async fail(execution: TurnExecution, text: string): Promise<void> {
    const { taskId, contextId, turnId, subject } = execution;
    const loop = execution.loop!;
    await execution.closeEffects(this.effectsMs);
    const asked = loop.key && (execution.hasEffects || subject.again) ? loop.key.taskNo : undefined;
    const evidence = evidenceOf(asked === undefined ? [] : await this.unresolved(execution, asked, turnId));
    loop.add(failed({ taskId, contextId }, text + evidence.text, evidence.metadata));
  }

  /**
   * Asked for as persistently as the end is stored: a FAILED without them would say that nothing is unresolved. Where they
   * cannot be read for as long, the lease is given up, and whoever recovers the task reads them.
   */
  private async unresolved(execution: TurnExecution, taskNo: number, turnId: string): Promise<UnresolvedEffect[]> {
    const { taskId } = execution;
    const backoff = new Backoff();
    const enoughAt = performance.now() + execution.retryMs;
    for (;;) {
      try {
        return await unresolvedEffects(this.effects, taskNo, turnId);
      } catch (error) {
        if (!(error instanceof StoreUnavailableError)) {
          this.logger.error(`Task ${taskId} ends FAILED without its unresolved effects: ${detailOf(error)}`);
          return [];
        }
        // Renewals move the deadline meanwhile.
        if (performance.now() >= Math.min(execution.deadline, enoughAt)) {
          throw new LeaseLostError(taskId, 'its unresolved effects could not be read before it ran out', {
            cause: error,
          });
        }
        await backoff.pause();
      }
    }
  }

  /** A part of the time that a shutdown gives to the ends of its turns. */
  private get effectsMs(): number {
    return this.options.cancelTimeoutMs / 2;
  }

  /** Stopped by the shutdown of this replica, in the middle of it and not for good. */
  private isToBeHandedOver(execution: TurnExecution): boolean {
    const { subject, cancellation, loop, reply } = execution;
    if (!this.handsOver || subject.kind !== 'message' || cancellation || reply || loop!.isSealed) return false;
    return isShutdown(execution);
  }

  /** The lease goes to whoever claims it, at once; what this replica may still have under way is fenced by that. */
  private async handOver(execution: TurnExecution): Promise<void> {
    const { taskNo, generation } = execution.loop!.key!;
    const deadline = execution.lease?.deadline ?? Infinity;
    execution.lease?.drop();
    racePoint('hand-over.before');
    if (generation !== undefined && !(await this.untilAnswered(() => this.leases!.handOver(generation, 0), deadline))) {
      throw new LeaseLostError(execution.taskId, 'another replica has claimed or ended it');
    }
    racePoint('hand-over.after');
    this.logger.log(`Handed the turn on task ${execution.taskId} over.`);
    this.stream.changed(taskNo);
    execution.ended.resolve({ kind: 'lost', taskNo });
  }

  /** Neither ended nor waiting: a task nobody published for, or one that is left in a running state. */
  private isUnfinished({ loop, subject }: TurnExecution): boolean {
    if (loop!.published !== undefined) return !isInterrupted(loop!.published);
    return !subject.followUp || !isInterrupted(loop!.current?.status?.state ?? 0);
  }

  /** The lease alone goes: the task waits on, or the answer was a message. */
  private async letGo(execution: TurnExecution): Promise<void> {
    const loop = execution.loop!;
    const { key } = loop;
    // From here on a lease that is gone is one that we released: no renewal round is to take it for a loss.
    const deadline = execution.lease?.deadline ?? Infinity;
    execution.lease?.drop();
    if (key?.generation !== undefined && this.leases) {
      const { generation } = key;
      racePoint('release.before');
      if (!(await this.untilAnswered(() => this.leases!.release(generation), deadline))) {
        throw new LeaseLostError(execution.taskId, 'another replica has claimed or ended it');
      }
      racePoint('release.after');
    }
    if (key) this.stream.changed(key.taskNo);
    const { reply } = execution;
    if (reply) {
      execution.opened.resolve({ message: reply });
      execution.ended.resolve({ kind: 'message', message: reply });
    } else if (key) {
      const task = loop.current!;
      execution.opened.resolve({ taskNo: key.taskNo, version: key.version, task });
      execution.ended.resolve({ kind: 'ended', taskNo: key.taskNo, version: key.version, task });
    }
  }

  /** Whether it was done; one whose answer was lost finds nothing when it is repeated, which is what it wanted. */
  private async untilAnswered(work: () => Promise<boolean>, deadline: number): Promise<boolean> {
    const backoff = new Backoff();
    let unsure = false;
    for (;;) {
      try {
        return (await work()) || unsure;
      } catch (error) {
        if (!(error instanceof StoreUnavailableError) || performance.now() >= deadline) throw error;
        unsure = true;
        await backoff.pause();
      }
    }
  }
}

const isShutdown = ({ signal }: TurnExecution): boolean =>
  signal.aborted && (signal.reason as TurnAbortedError).code === 'SHUTDOWN';
