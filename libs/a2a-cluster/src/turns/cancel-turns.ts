import { Injectable } from '@nestjs/common';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { TaskCanceledError } from '../errors/task-canceled.error.js';
import type { TaskScope } from '../tasks/task-store.js';
import { ExecutorInvoker } from './executor/executor-invoker.js';
import { RunningTurns } from './running-turns.js';
import { AdmittedBefore } from './turn-entry.js';
import type { TurnExecution } from './turn-execution.js';
import { TurnFactory } from './turn-factory.js';
import { TurnRunner } from './turn-runner.js';
import type { Admitted } from './turn-subject.js';
import { ResolvedOptions } from '../options/cluster.options.js';

/** The turns in which an executor cleans up after a cancel of a task that nobody runs. */
@Injectable()
export class CancelTurns {
  constructor(
    private readonly turns: TurnFactory,
    private readonly invoker: ExecutorInvoker,
    private readonly runner: TurnRunner,
    private readonly running: RunningTurns,
    private readonly options: ResolvedOptions,
  ) {}

  /** Whether this replica shuts down: it starts nothing any more. */
  get isDraining(): boolean {
    return this.running.isDraining;
  }

  /** Asks the executor's guards whether this caller may cancel. */
  async guard(taskId: string, callContext: ServerCallContext): Promise<void> {
    const invocation = await this.invoker.prepare(callContext);
    await this.invoker.guard(invocation, 'cancelTask', [taskId, undefined, callContext]);
  }

  /** A cancel turn that has not started: its lease is asked for in the request to cancel. */
  prepare(scope: TaskScope, contextId: string, callContext: ServerCallContext): TurnExecution {
    return this.turns.create({
      kind: 'cancel',
      scope,
      contextId,
      callContext,
      request: undefined,
      receipt: undefined,
      followUp: true,
    });
  }

  /** Runs a cancel turn whose lease was acquired: the executor may clean up, and CANCELED is written in any case. */
  start(turn: TurnExecution, admitted: Admitted): void {
    const stop = (): void => turn.abort(new TaskCanceledError(turn.taskId));
    const timer = setTimeout(stop, this.options.turns.cancelTimeoutMs);
    void this.runner.run(turn, turn.subject.callContext, new AdmittedBefore(admitted));
    void turn.outcome.then(() => clearTimeout(timer));
  }
}
