import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { TaskState } from '@a2a-js/sdk';
import type { AgentExecutor, ExecutionEventBus, RequestContext } from '@a2a-js/sdk/server';
import { currentTurn } from 'nestjs-a2a-cluster';
import { EventNumbers, TurnPublisher } from '../scripted-agent/turn.publisher.js';
import { behaviourFor, type Step } from './behaviours.js';

/** The agent that A2A's compatibility kit wants to talk to: the id of a message says what it does. */
@Injectable()
export class ConformanceAgent implements AgentExecutor {
  async execute(request: RequestContext, bus: ExecutionEventBus): Promise<void> {
    const steps = behaviourFor(request.userMessage.messageId);
    const numbers = EventNumbers.after(request.task);
    const publisher = new TurnPublisher(bus, request.taskId, request.contextId, numbers);
    const repliesOnly = steps.every((step) => 'reply' in step);
    if (!repliesOnly && request.task === undefined) publisher.task(request.userMessage);
    const artifactId = randomUUID();
    for (const step of steps) await run(step, publisher, artifactId);
  }

  /** The signal of a running turn has aborted by now, which ends its wait. */
  cancelTask(taskId: string, bus: ExecutionEventBus): Promise<void> {
    // Nothing is known of the events of a task that waits, but CANCELED is its last: any high number does.
    const publisher = new TurnPublisher(bus, taskId, currentTurn().contextId, new EventNumbers(Date.now()));
    publisher.status(TaskState.TASK_STATE_CANCELED);
    return Promise.resolve();
  }
}

async function run(step: Step, publisher: TurnPublisher, artifactId: string): Promise<void> {
  if ('status' in step) publisher.status(step.status, step.text);
  else if ('reply' in step) publisher.reply(step.reply);
  else if ('waitMs' in step) await pause(step.waitMs, undefined, { signal: currentTurn().signal });
  else {
    const { artifact: part, append = false, lastChunk = true } = step;
    publisher.artifact({ artifactId, name: 'output', part, append, lastChunk });
  }
}
