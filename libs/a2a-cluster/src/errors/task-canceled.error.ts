import { TurnAbortedError } from './turn-aborted.error.js';

/** Somebody asked, through any replica, that the task be canceled. */
export class TaskCanceledError extends TurnAbortedError {
  override readonly name = 'TaskCanceledError';
  readonly code = 'A2A_TASK_CANCELED';

  constructor(taskId: string) {
    super(taskId, `Task ${taskId} was canceled.`);
  }
}
