import { EventEmitter } from 'node:events';
import { InvalidAgentResponseError } from '@a2a-js/sdk/errors';
import { type AgentExecutionEvent, type ExecutionEventBus, type ExecutionEventName } from '@a2a-js/sdk/server';
import { TurnOverflowError } from '../errors/turn-overflow.error.js';
import type { TaskEvent } from '../tasks/task-event.js';
import { copyMessage } from '../tasks/task-event.codec.js';
import type { TurnExecution } from './turn-execution.js';
import { LibraryLogger } from '../logging/library.logger.js';

type Listener = (event: AgentExecutionEvent) => void;

/**
 * The bus that an executor publishes on. Publishing is synchronous, takes a copy, and queues for the commit loop. What
 * is published after the turn has ended, or without a live lease, is dropped with one warning.
 */
export class FencedEventBus implements ExecutionEventBus {
  private readonly logger = new LibraryLogger('A2AClusterEventBus');
  private readonly emitter = new EventEmitter();
  private finishedByExecutor = false;
  private warned = false;

  constructor(
    readonly turn: TurnExecution,
    private readonly maxQueuedBytes: number,
  ) {}

  /** Throws where the event is for another task, or where too many wait to be stored. */
  publish(event: AgentExecutionEvent): void {
    const { turn } = this;
    const { loop } = turn;
    if (!loop || turn.reply || this.finishedByExecutor || turn.defect) return this.drop(event);
    this.refuseForeign(event);
    // One whose deadline has passed waits in the queue until it is known who has the lease.
    turn.checkDeadline();
    if (loop.isSealed) return this.drop(event);
    if (event.kind === 'message') turn.answeredWith(copyMessage(event.data));
    else if (!loop.add(toTaskEvent(event, turn))) return this.drop(event);
    if (loop.queuedBytes > this.maxQueuedBytes / 2) loop.hurry();
    if (loop.queuedBytes > this.maxQueuedBytes) {
      const overflow = new TurnOverflowError(turn.taskId, loop.queuedBytes, this.maxQueuedBytes);
      turn.publishingFailed(overflow);
      throw overflow;
    }
    this.emitter.emit('event', event);
  }

  finished(): void {
    this.finishedByExecutor = true;
    this.emitter.emit('finished');
  }

  on(eventName: ExecutionEventName, listener: Listener | (() => void)): this {
    this.emitter.on(eventName, listener);
    return this;
  }

  off(eventName: ExecutionEventName, listener: Listener | (() => void)): this {
    this.emitter.off(eventName, listener);
    return this;
  }

  once(eventName: ExecutionEventName, listener: Listener | (() => void)): this {
    this.emitter.once(eventName, listener);
    return this;
  }

  removeAllListeners(eventName?: ExecutionEventName): this {
    this.emitter.removeAllListeners(eventName);
    return this;
  }

  private refuseForeign(event: AgentExecutionEvent): void {
    if (event.kind === 'message') return;
    const named = event.kind === 'task' ? event.data.id : event.data.taskId;
    const { taskId } = this.turn;
    if (!named || named === taskId) return;
    throw new InvalidAgentResponseError(`The executor published a ${event.kind} for ${named} in a turn on ${taskId}.`);
  }

  private drop(event: AgentExecutionEvent): void {
    if (this.warned) return;
    this.warned = true;
    const { signal, taskId } = this.turn;
    const why = signal.aborted ? (signal.reason as Error).message : 'the turn has ended';
    this.logger.warn(`Dropped a ${event.kind} for task ${taskId}, and whatever follows it: ${why}`);
  }
}

/** The published event, with the ids and the time that the executor left out. */
function toTaskEvent(
  event: Exclude<AgentExecutionEvent, { kind: 'message' }>,
  { taskId, contextId }: TurnExecution,
): TaskEvent {
  switch (event.kind) {
    case 'task': {
      const { status } = event.data;
      return { kind: 'task', task: { ...event.data, id: taskId, contextId, status: status && timed(status) } };
    }
    case 'statusUpdate': {
      const { status } = event.data;
      return {
        kind: 'statusUpdate',
        statusUpdate: { ...event.data, taskId, contextId, status: status && timed(status) },
      };
    }
    case 'artifactUpdate': {
      const { data } = event;
      // Most often, and then nothing is to be filled in: the loop takes its copy in any case.
      const isWhole = data.taskId === taskId && data.contextId === contextId;
      return { kind: 'artifactUpdate', artifactUpdate: isWhole ? data : { ...data, taskId, contextId } };
    }
  }
}

const timed = <T extends { timestamp: string | undefined }>(status: T): T =>
  status.timestamp ? status : { ...status, timestamp: new Date().toISOString() };
