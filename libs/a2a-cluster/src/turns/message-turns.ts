import { Injectable } from '@nestjs/common';
import type { SendMessageRequest, Task } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { MessageReceipt, PushReceiver, TaskScope } from '../tasks/task-store.js';
import { RunningTurns } from './running-turns.js';
import { TurnAdmission } from './turn-admission.js';
import type { TurnExecution } from './turn-execution.js';
import { TurnFactory } from './turn-factory.js';
import { TurnRequestContext } from './turn-request-context.js';
import { TurnRunner } from './turn-runner.js';

/** A message that wants a turn. */
export interface MessageTurn {
  scope: TaskScope;
  contextId: string;
  callContext: ServerCallContext;
  request: SendMessageRequest;
  receipt: MessageReceipt | undefined;
  push?: PushReceiver | undefined;
  /** The task that it is a follow-up to, as it was looked up. */
  task: Task | undefined;
  referenceTasks: Task[] | undefined;
  /** Aborts when nobody waits for the answer any more. */
  gone?: AbortSignal | undefined;
}

/** Starts the turns of messages. */
@Injectable()
export class MessageTurns {
  constructor(
    private readonly turns: TurnFactory,
    private readonly admission: TurnAdmission,
    private readonly runner: TurnRunner,
    private readonly running: RunningTurns,
  ) {}

  /** Starts the turn of a message. Throws {@link ReplicaDrainingError}; all else is told by the turn's promises. */
  start({ task, referenceTasks, ...message }: MessageTurn): TurnExecution {
    this.running.assertOpen();
    const turn = this.turns.create({ kind: 'message', followUp: task !== undefined, ...message });
    const context = new TurnRequestContext(turn, message.request, message.callContext, task, referenceTasks);
    void this.runner.run(turn, context, this.admission);
    return turn;
  }
}
