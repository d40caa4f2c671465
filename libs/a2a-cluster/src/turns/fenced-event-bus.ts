import { EventEmitter } from 'node:events';
import { Logger } from '@nestjs/common';
import type { Message } from '@a2a-js/sdk';
import { InvalidAgentResponseError } from '@a2a-js/sdk/errors';
import { type AgentExecutionEvent, type ExecutionEventBus, type ExecutionEventName } from '@a2a-js/sdk/server';
import { TurnOverflowError } from '../errors/turn-overflow.error.js';
import type { TaskEvent } from '../tasks/task-event.js';
import { copyMessage } from '../tasks/task-event.codec.js';
import type { TurnExecution } from './turn-execution.js';

type Listener = (event: AgentExecutionEvent) => void;

/**
 * The bus that an executor publishes on. Publishing is synchronous, takes a copy, and queues for the commit loop. What
 * is published after the turn has ended, or without a live lease, is dropped with one warning.
 */
export class FencedEventBus implements ExecutionEventBus {
  private readonly logger = new Logger('A2AClusterEventBus');
  private readonly emitter = new EventEmitter();
  private finishedByExecutor = false;
  private warned = false;

  constructor(
    readonly execution: TurnExecution,
    private readonly maxQueuedBytes: number,
  ) {}

  /** Throws where the event is for another task, or where too many wait to be stored. */
  publish(event: AgentExecutionEvent): void {
    const { execution } = this;
    const { loop } = execution;
    if (!loop || execution.reply || this.finishedByExecutor || execution.defect) return this.drop(event);
    this.refuseForeign(event);
    // One whose deadline has passed waits in the queue until it is known who has the lease.
    execution.checkDeadline();
    if (loop.isSealed) return this.drop(event);
    if (event.kind === 'message') this.reply(event.data);
    else if (!loop.add(toTaskEvent(event, execution))) return this.drop(event);
    if (loop.queuedBytes > this.maxQueuedBytes / 2) loop.hurry();
    if (loop.queuedBytes > this.maxQueuedBytes) {
      execution.defect = new TurnOverflowError(execution.taskId, loop.queuedBytes, this.maxQueuedBytes);
      throw execution.defect;
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

  private reply(message: Message): void {
    this.execution.reply = copyMessage(message);
    this.execution.replied.resolve();
  }

  private refuseForeign(event: AgentExecutionEvent): void {
    if (event.kind === 'message') return;
    const named = event.kind === 'task' ? event.data.id : event.data.taskId;
    if (!named || named === this.execution.taskId) return;
    const { taskId } = this.execution;
    throw new InvalidAgentResponseError(`The executor published a ${event.kind} for ${named} in a turn on ${taskId}.`);
  }

  private drop(event: AgentExecutionEvent): void {
    if (this.warned) return;
    this.warned = true;
    const { signal, taskId } = this.execution;
    const why = signal.aborted ? (signal.reason as Error).message : 'the turn has ended';
    this.logger.warn(`Dropped a ${event.kind} for task ${taskId}, and whatever follows it: ${why}`);
  }
}

/** What the executor published, with the ids filled in that it may leave out and a time where it gave none. */
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
