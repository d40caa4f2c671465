/** The turn was asked for what it cannot do: a mistake in the executor, which nothing was done about. */
export class TurnUsageError extends Error {
  override readonly name = 'TurnUsageError';
  readonly code = 'A2A_TURN_USAGE';

  constructor(
    readonly taskId: string,
    message: string,
  ) {
    super(message);
  }
}
