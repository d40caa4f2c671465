import { Injectable } from '@nestjs/common';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { unlessAborted } from '../async/unless-aborted.js';
import { ReplicaDrainingError } from '../errors/replica-draining.error.js';
import { ReplicaShutdownError } from '../errors/replica-shutdown.error.js';
import { copyTask } from '../tasks/task-event.codec.js';
import { ExecutorInvoker } from './executor/executor-invoker.js';
import { FencedEventBus } from './fenced-event-bus.js';
import { RunningTurns } from './running-turns.js';
import { TurnConclusion } from './turn-conclusion.js';
import type { TurnEntry } from './turn-entry.js';
import type { TurnExecution } from './turn-execution.js';
import { TurnRequestContext } from './turn-request-context.js';
import { ResolvedOptions } from '../options/cluster.options.js';

/** Sees turns through. */
@Injectable()
export class TurnRunner {
  constructor(
    private readonly invoker: ExecutorInvoker,
    private readonly conclusion: TurnConclusion,
    private readonly running: RunningTurns,
    private readonly options: ResolvedOptions,
  ) {}

  /**
   * Guards, admits, executes and concludes a turn. Its promises tell whether it was admitted, and how it ends. Never
   * rejects.
   * @param request what `execute` is called with, or the caller of a cancel turn, in which `cancelTask` is called
   */
  async run(turn: TurnExecution, request: TurnRequestContext | ServerCallContext, entry: TurnEntry): Promise<void> {
    this.running.add(turn);
    try {
      turn.endsWithin(this.options.turns.maxTurnDurationMs);
      const invocation = await unlessAborted(this.invoker.prepare(request), turn.signal);
      const bus = new FencedEventBus(turn, this.options.turns.maxQueuedBytes);
      turn.executorMade({ cancel: () => this.invoker.cancel(invocation, turn.subject.callContext, bus) });
      if (entry.asksGuards) {
        // A guard that never answers holds up its message, and no longer than a turn may take.
        await unlessAborted(this.invoker.guard(invocation, 'execute', [request, bus]), turn.signal);
      }
      if (!(await entry.admit(turn))) return;
      const { admittedTask } = turn;
      if (admittedTask && request instanceof TurnRequestContext) request.admitted(copyTask(admittedTask.task));
      const ending = await this.invoker.execute(invocation, request, bus);
      await this.conclusion.conclude(turn, ending);
    } catch (error) {
      turn.brokeOff(error instanceof ReplicaShutdownError ? new ReplicaDrainingError() : error, error);
    } finally {
      turn.closed();
      this.running.delete(turn);
    }
  }
}
