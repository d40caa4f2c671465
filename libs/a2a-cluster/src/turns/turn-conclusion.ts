import { Logger } from '@nestjs/common';
import { TaskState } from '@a2a-js/sdk';
import { isPassing } from '../database/database-errors.js';
import { Backoff } from '../database/retry.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { TurnAbortedError } from '../errors/turn-aborted.error.js';
import type { LeaseStore } from '../leases/lease-store.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import { isInterrupted } from '../tasks/task-states.js';
import { canceled, failed, statusEvent, statusWithMessage } from './status-events.js';
import type { TurnExecution } from './turn-execution.js';
import type { TurnOptions } from './turn-options.js';

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
    private readonly options: TurnOptions,
  ) {}

  async conclude(execution: TurnExecution, outcome: ExecutionOutcome): Promise<void> {
    const loop = execution.loop!;
    clearTimeout(execution.timer);
    try {
      await this.finish(execution, outcome);
      loop.close();
      await loop.drained();
      if (!loop.isEnding) await this.letGo(execution);
    } catch (error) {
      const lost = error instanceof LeaseLostError ? error : new LeaseLostError(execution.taskId, String(error));
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
        this.logger.error(`The executor threw after its turn had ended: ${String(outcome.error)}`);
      return;
    }
    const ids = { taskId: execution.taskId, contextId: execution.contextId };
    if (subject.kind === 'cancel') {
      if (outcome.kind === 'threw')
        this.logger.error(`cancelTask threw for task ${ids.taskId}: ${String(outcome.error)}`);
      loop.add(canceled(ids));
    } else if (defect || outcome.kind === 'threw') {
      const error = defect ?? (outcome as { error: unknown }).error;
      this.logger.error(`The executor failed on task ${ids.taskId}: ${detailOf(error)}`);
      loop.add(failed(ids, `The agent failed: ${error instanceof Error ? error.message : String(error)}`));
    } else if (reply) {
      // A task that this turn has set in motion needs an end; otherwise the message is the whole answer.
      const running = loop.published !== undefined && !isInterrupted(loop.published);
      if (running) loop.add(statusWithMessage(ids, TaskState.TASK_STATE_COMPLETED, reply));
    } else if (this.isUnfinished(execution)) {
      loop.add(
        this.options.unfinishedTurn === 'complete'
          ? statusEvent(ids, TaskState.TASK_STATE_COMPLETED, 'The agent returned without a final status.')
          : failed(ids, 'The agent returned without bringing the task to an end or asking for anything.'),
      );
    }
  }

  private async finishAborted(execution: TurnExecution, reason: TurnAbortedError): Promise<void> {
    const loop = execution.loop!;
    const ids = { taskId: execution.taskId, contextId: execution.contextId };
    if (reason.code === 'LEASE_LOST') throw reason;
    // Whatever stops a turn that is to be canceled: its task was asked to be CANCELED.
    const toCancel = execution.cancellation !== undefined || execution.subject.kind === 'cancel';
    await execution.cancellation;
    loop.add(toCancel || reason.code === 'TASK_CANCELED' ? canceled(ids) : failed(ids, reason.message));
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
      if (!(await this.release(key.generation, deadline))) {
        throw new LeaseLostError(execution.taskId, 'another replica has claimed or ended it');
      }
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

  private async release(generation: number, deadline: number): Promise<boolean> {
    const backoff = new Backoff();
    let unsure = false;
    for (;;) {
      try {
        // A release whose answer was lost finds nothing when it is repeated, which is what it wanted.
        return (await this.leases!.release(generation)) || unsure;
      } catch (error) {
        if (!isPassing(error) || performance.now() >= deadline) throw error;
        unsure = true;
        await backoff.pause();
      }
    }
  }
}

const detailOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));

const causeOf = (error: Error): string => (error.cause === undefined ? '' : ` Cause: ${detailOf(error.cause)}`);
