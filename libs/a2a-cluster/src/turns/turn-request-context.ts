import type { SendMessageRequest, Task } from '@a2a-js/sdk';
import { RequestContext, type ServerCallContext } from '@a2a-js/sdk/server';
import type { Turn } from './turn.js';

/**
 * What an executor is called with: the SDK's request context and the {@link Turn}. Guards see it before the turn is
 * admitted; from then on `task` is the task as it was admitted, with the message in its history.
 */
export class TurnRequestContext extends RequestContext {
  declare readonly task?: Task;

  constructor(
    readonly turn: Turn,
    request: SendMessageRequest,
    context: ServerCallContext,
    task: Task | undefined,
    referenceTasks: Task[] | undefined,
  ) {
    super(request, turn.taskId, turn.contextId, context, task, referenceTasks);
  }

  /** @internal The task as it stands once the turn is admitted. */
  admitted(task: Task): void {
    (this as { task?: Task }).task = task;
  }
}
