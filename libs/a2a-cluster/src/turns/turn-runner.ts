import { Logger } from '@nestjs/common';
import type { SendMessageRequest, Task } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { detailOf, messageOf } from '../errors/described.js';
import { within } from '../async/late-timer.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { ReplicaDrainingError } from '../errors/replica-draining.error.js';
import { ReplicaShutdownError } from '../errors/replica-shutdown.error.js';
import { TaskCanceledError } from '../errors/task-canceled.error.js';
import { TurnTimeoutError } from '../errors/turn-timeout.error.js';
import { racePoint } from '../race-points/race-points.js';
import type { MessageReceipt, PushReceiver, TaskScope } from '../tasks/task-store.js';
import type { ExecutorInvoker } from './executor/executor-invoker.js';
import type { Invocation } from './executor/executor-provider.js';
import { FencedEventBus } from './fenced-event-bus.js';
import type { RunningTurns } from './running-turns.js';
import { canceled } from './status-events.js';
import { type Admitted, type RunnerServices, TurnExecution, type TurnSubject } from './turn-execution.js';
import type { TurnOptions } from '../options/turn.options.js';
import { TurnRequestContext } from './turn-request-context.js';
import { unlessAborted } from '../async/unless-aborted.js';

/** How long, in ms, the ends of turns that a shutdown stops wait for the look at cancel requests. */
const LAST_LOOK_MS = 1_000;

/** How long the leases of turns that could not be ended may take to be handed over, in ms. */
const LET_GO_MS = 500;

/** A message that wants a turn. */
export interface MessageTurn {
  scope: TaskScope;
  contextId: string;
  callContext: ServerCallContext;
  request: SendMessageRequest;
  receipt: MessageReceipt | undefined;
  push?: PushReceiver | undefined;
  /** The task it is a follow-up to, as it was looked up. */
  task: Task | undefined;
  referenceTasks: Task[] | undefined;
}

/** The turn of a message that is run again, under a lease that was claimed for it. */
export interface ResumedTurn extends MessageTurn {
  again: NonNullable<TurnSubject['again']>;
  admitted: Admitted;
}

/** Starts turns and sees them through. */
export class TurnRunner {
  private readonly logger = new Logger('A2AClusterTurn');
  private readonly buses = new WeakMap<TurnExecution, { bus: FencedEventBus; invocation: Invocation }>();

  constructor(
    private readonly invoker: ExecutorInvoker,
    private readonly running: RunningTurns,
    private readonly options: TurnOptions,
    private readonly services: RunnerServices,
  ) {}

  /** Starts the turn of a message. Whether it was admitted, and how it ends, is told by the execution's promises. */
  start({ task, referenceTasks, ...message }: MessageTurn): TurnExecution {
    this.running.assertOpen();
    const { request, callContext } = message;
    const execution = this.create({ kind: 'message', followUp: task !== undefined, ...message });
    const context = new TurnRequestContext(execution, request, callContext, task, referenceTasks);
    void this.run(execution, context, async (invocation, bus) => {
      // A guard that never answers holds up its message, and no longer than a turn may take.
      await unlessAborted(this.invoker.guard(invocation, 'execute', [context, bus]), execution.signal);
      await this.invoker.execute(invocation, context, bus);
    });
    return execution;
  }

  /**
   * Runs a turn again that was admitted before. The guards have let its message pass then, and are not asked again.
   * Throws {@link ReplicaDrainingError}.
   */
  resume({ task, referenceTasks, admitted, ...message }: ResumedTurn): TurnExecution {
    this.running.assertOpen();
    const { request, callContext } = message;
    const execution = this.create({ kind: 'message', followUp: task !== undefined, ...message });
    execution.preAdmitted = admitted;
    // It is this turn's from here on, whatever comes between here and its executor.
    admitted.held?.transferTo(execution);
    execution.lease = admitted.held;
    const context = new TurnRequestContext(execution, request, callContext, admitted.stored.task, referenceTasks);
    // Nobody waits for its answer.
    execution.opened.promise.catch(() => undefined);
    execution.ended.promise.catch((error: unknown) =>
      this.logger.error(`The turn on task ${execution.taskId} could not be run again: ${detailOf(error)}`),
    );
    void this.run(execution, context, (invocation, bus) => this.invoker.execute(invocation, context, bus));
    return execution;
  }

  /** The execution of a cancel turn: its lease is asked for in the request to cancel. */
  prepareCancel(scope: TaskScope, contextId: string, callContext: ServerCallContext): TurnExecution {
    const followUp = true;
    return this.create({
      kind: 'cancel',
      scope,
      contextId,
      callContext,
      request: undefined,
      receipt: undefined,
      followUp,
    });
  }

  /** Runs a cancel turn whose lease was acquired: the executor may clean up, and CANCELED is written in any case. */
  startCancel(execution: TurnExecution, admitted: Admitted): void {
    execution.preAdmitted = admitted;
    const { callContext } = execution.subject;
    const timer = setTimeout(
      () => execution.abort(new TaskCanceledError(execution.taskId)),
      this.options.cancelTimeoutMs,
    );
    void this.run(execution, callContext, (invocation, bus) =>
      this.invoker.executeCancel(invocation, callContext, bus),
    );
    void execution.ended.promise.catch(() => undefined).finally(() => clearTimeout(timer));
  }

  /** Whether this replica shuts down: it starts nothing any more. */
  get isDraining(): boolean {
    return this.running.isDraining;
  }

  /** Asks the executor's guards whether this caller may cancel. */
  async guardCancel(taskId: string, callContext: ServerCallContext): Promise<void> {
    const invocation = await this.invoker.prepare(callContext);
    await this.invoker.guard(invocation, 'cancelTask', [taskId, undefined, callContext]);
  }

  /**
   * Lets running turns end by themselves for a while, then stops and ends them. No new ones are taken. `lookForCancels`
   * looks once more for cancel requests that have not arrived: such a task ends CANCELED, not FAILED.
   */
  async drain(lookForCancels: () => Promise<void>): Promise<void> {
    this.running.close();
    racePoint('shutdown.drain');
    if (await this.running.idle(this.options.drainTimeoutMs)) return;
    racePoint('shutdown.abort');
    this.logger.warn(`Stopping ${this.running.size} turns that outlast the drain time.`);
    // The executors hear of it at once, whatever the database does; the ends of their turns wait for the look.
    const look = lookForCancels().catch((error: unknown) => {
      this.logger.warn(`No last look at cancel requests: ${messageOf(error)}`);
    });
    const lastLook = within(LAST_LOOK_MS, look);
    for (const execution of this.running) {
      execution.lastLook = lastLook;
      execution.abort(new ReplicaShutdownError(execution.taskId));
    }
    // A cancel that it has found has all the time that cancels have.
    await lastLook;
    if (await this.running.idle(this.options.cancelTimeoutMs)) return;
    await this.letGo();
  }

  /** The last resort: whoever sweeps next ends what could not be ended here in time. */
  private async letGo(): Promise<void> {
    const left = [...this.running];
    this.logger.error(`${left.length} turns could not be ended in time: their leases are left to the next sweep.`);
    const generations = left.flatMap(({ lease }) => (lease ? [lease.generation] : []));
    racePoint('let-go.before');
    const letGo = Promise.allSettled(generations.map((generation) => this.services.handOver(generation)));
    await within(LET_GO_MS, letGo);
    racePoint('let-go.after');
  }

  private create(subject: TurnSubject): TurnExecution {
    return new TurnExecution(subject, {
      ...this.services,
      cancel: (execution) => this.cancelRunning(execution),
    });
  }

  private async run(
    execution: TurnExecution,
    request: unknown,
    steps: (invocation: Invocation, bus: FencedEventBus) => Promise<void>,
  ): Promise<void> {
    this.running.add(execution);
    try {
      this.limit(execution);
      const invocation = await unlessAborted(this.invoker.prepare(request), execution.signal);
      const bus = new FencedEventBus(execution, this.options.maxQueuedBytes);
      this.buses.set(execution, { bus, invocation });
      await steps(invocation, bus);
    } catch (error) {
      const why = error instanceof ReplicaShutdownError ? new ReplicaDrainingError() : error;
      // What it may still have under way takes no lease any more.
      execution.loop?.refuse(new LeaseLostError(execution.taskId, 'the turn broke off', { cause: error }));
      execution.opened.reject(why);
      execution.ended.reject(why);
    } finally {
      clearTimeout(execution.timer);
      execution.lease?.drop();
      this.running.delete(execution);
      execution.isOver = true;
      execution.concluded.resolve();
    }
  }

  /** I6: an executor that never settles, or is never made, is stopped all the same. */
  private limit(execution: TurnExecution): void {
    const { maxTurnDurationMs } = this.options;
    if (!Number.isFinite(maxTurnDurationMs)) return;
    execution.timer = setTimeout(
      () => execution.abort(new TurnTimeoutError(execution.taskId, maxTurnDurationMs)),
      maxTurnDurationMs,
    );
  }

  private async cancelRunning(execution: TurnExecution): Promise<void> {
    try {
      await this.tellCanceled(execution);
    } catch (error) {
      this.logger.error(`Canceling task ${execution.taskId} failed half way: ${detailOf(error)}`);
    }
  }

  /** The holder's side of a cancel: tell the executor, give it a while, and write CANCELED if nobody else did. */
  private async tellCanceled(execution: TurnExecution): Promise<void> {
    const { loop, taskId, contextId, subject } = execution;
    racePoint('cancel-heard.before');
    const entry = this.buses.get(execution);
    if (loop) loop.canceling = true;
    execution.abort(new TaskCanceledError(taskId));
    // Its executor is still being made: there is nobody to tell.
    if (!loop || !entry) return;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => (timer = setTimeout(resolve, this.options.cancelTimeoutMs)));
    const cleanUp = this.invoker.cancel(entry.invocation, subject.callContext, entry.bus);
    await Promise.race([Promise.all([cleanUp, execution.settled.promise]), loop.sealed.promise, timeout]);
    clearTimeout(timer);
    racePoint('cancel-heard.after');
    loop.add(canceled({ taskId, contextId }));
    execution.cleanUp.stop(new TaskCanceledError(taskId));
  }
}
