/** `currentTurn()` was called where no turn runs. */
export class NoCurrentTurnError extends Error {
  override readonly name = 'NoCurrentTurnError';
  readonly code = 'A2A_NO_CURRENT_TURN';

  constructor() {
    super('currentTurn() was called outside of an A2A turn: call it in what AgentExecutor.execute() runs.');
  }
}
