import { Injectable } from '@nestjs/common';
import type { Task } from '@a2a-js/sdk';
import { TaskState } from '@a2a-js/sdk';
import { TaskNotCancelableError, TaskNotFoundError } from '@a2a-js/sdk/errors';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { Backoff } from '../async/backoff.js';
import { untilKnown } from '../async/until-known.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { ReplicaDrainingError } from '../errors/replica-draining.error.js';
import { racePoint } from '../race-points/race-points.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { stateSetBy } from '../tasks/task-event.js';
import { isInterrupted, isTerminal, stateName, stateOf } from '../tasks/task-states.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import type { TaskScope } from '../tasks/task-store.js';
import { AbandonedRecovery } from '../turns/abandoned-recovery.js';
import { CancelTurns } from '../turns/cancel-turns.js';
import { canceled } from '../turns/status-events.js';
import { ResolvedOptions } from '../options/cluster.options.js';

/** Cancels a task from any replica, whichever runs it. */
@Injectable()
export class TaskCancellation {
  constructor(
    private readonly tasks: LeasedTaskStore,
    private readonly stream: TaskEventStream,
    private readonly turns: CancelTurns,
    private readonly recovery: AbandonedRecovery,
    private readonly options: ResolvedOptions,
  ) {}

  /** Asks the executor's guards whether this caller may cancel. */
  guard(taskId: string, context: ServerCallContext): Promise<void> {
    return this.turns.guard(taskId, context);
  }

  /**
   * Returns the task as CANCELED. Throws TaskNotCancelableError where it ended otherwise first, and TaskNotFoundError.
   */
  async cancel(scope: TaskScope, contextId: string, context: ServerCallContext): Promise<Task> {
    const giveUpAt = performance.now() + this.patienceMs;
    for (;;) {
      if (this.stream.closed.aborted) throw new ReplicaDrainingError();
      const turn = this.turns.prepare(scope, contextId, context);
      // A replica that shuts down starts no cancel turns: it cancels without asking the executor.
      const lease = this.turns.isDraining ? undefined : turn.leaseRequest();
      const sentAt = performance.now();
      const request = await untilKnown(() => this.tasks.requestCancel(scope, lease), giveUpAt);
      switch (request.outcome) {
        case 'unknown':
          throw new TaskNotFoundError(`Task not found: ${scope.taskId}`);
        case 'terminal':
          return canceledTask(request.stored.task);
        case 'abandoned':
          if (!this.recovery.isOn || performance.now() >= giveUpAt) return this.force(scope);
          if (!(await this.recovery.recoverTask(scope))) await new Backoff().pause();
          break;
        case 'admitted': {
          if (this.turns.isDraining) return this.force(scope);
          racePoint('cancel-turn.after');
          // Nobody runs it: the executor cleans up here, under the lease that was just taken.
          this.turns.start(turn, { stored: request.stored, generation: request.generation, sentAt });
          const outcome = await turn.outcome;
          if (outcome.kind === 'refused') throw outcome.error;
          break;
        }
        case 'requested': {
          racePoint('cancel-flag.after');
          this.stream.changed(request.taskNo);
          await this.untilSettled(request.taskNo, request.version, giveUpAt);
          if (performance.now() >= giveUpAt) return this.force(scope);
        }
      }
    }
  }

  private get patienceMs(): number {
    const { turns, streams } = this.options;
    return turns.cancelTimeoutMs + streams.pollIntervalMs;
  }

  /** CANCELED whoever runs the task: its lease is taken away. */
  private async force(scope: TaskScope): Promise<Task> {
    const end = ({ id, contextId }: Task) => canceled({ taskId: id, contextId });
    const { task, taskNo } = await untilKnown(
      () => this.tasks.forceEnd(scope, end),
      performance.now() + this.patienceMs,
    ).catch((error: unknown) => {
      // The task itself is what this takes: it was deleted.
      throw error instanceof LeaseLostError ? new TaskNotFoundError(`Task not found: ${scope.taskId}`) : error;
    });
    this.stream.changed(taskNo);
    return canceledTask(task);
  }

  /** Waits until the task has ended or its turn has, or until it is time to force the matter. */
  private async untilSettled(taskNo: number, fromVersion: number, giveUpAt: number): Promise<void> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), Math.max(0, giveUpAt - performance.now()));
    try {
      for await (const { event } of this.stream.follow(taskNo, fromVersion, late.signal)) {
        const state = stateSetBy(event) ?? 0;
        if (isTerminal(state) || isInterrupted(state)) return;
      }
    } finally {
      clearTimeout(timer);
    }
  }
}

function canceledTask(task: Task): Task {
  requireCanceled(task.id, stateOf(task));
  return task;
}

/** A task that has ended is canceled by nobody any more. Throws TaskNotCancelableError where it ended otherwise. */
export function requireCanceled(taskId: string, state: TaskState): void {
  if (state === TaskState.TASK_STATE_CANCELED) return;
  throw new TaskNotCancelableError(`Task ${taskId} has ended as ${stateName(state)} and cannot be canceled.`);
}
