/** The executor published faster than the database stores, past `turns.maxQueuedBytes`: await `turn.flush()` in it. */
export class TurnOverflowError extends Error {
  override readonly name = 'TurnOverflowError';
  readonly code = 'A2A_TURN_OVERFLOW';

  constructor(
    readonly taskId: string,
    readonly queuedBytes: number,
    readonly maxQueuedBytes: number,
  ) {
    super(
      `The turn on task ${taskId} has ${queuedBytes} bytes of events waiting to be stored, ` +
        `above turns.maxQueuedBytes = ${maxQueuedBytes}: await turn.flush() between events.`,
    );
  }
}
