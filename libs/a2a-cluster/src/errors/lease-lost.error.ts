import { TurnAbortedError } from './turn-aborted.error.js';

/**
 * This replica no longer holds the lease of the turn, or can no longer be sure that it does. Whatever the turn does
 * from here on is refused; another replica decides how the task ends.
 */
export class LeaseLostError extends TurnAbortedError {
  override readonly name = 'LeaseLostError';
  readonly code = 'A2A_LEASE_LOST';

  constructor(taskId: string, detail: string, options?: ErrorOptions) {
    super(taskId, `The lease on task ${taskId} is lost: ${detail}.`, options);
  }
}
