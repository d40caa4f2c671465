import { TurnAbortedError } from './turn-aborted.error.js';

/** The turn ran for longer than `turns.maxTurnDurationMs`. */
export class TurnTimeoutError extends TurnAbortedError {
  override readonly name = 'TurnTimeoutError';
  readonly code = 'A2A_TURN_TIMEOUT';

  constructor(
    taskId: string,
    readonly maxTurnDurationMs: number,
  ) {
    super(taskId, `The turn on task ${taskId} took longer than ${maxTurnDurationMs} ms.`);
  }
}
