/** The message was accepted before, within the window: its task answers this one too, and no second turn runs. */
export class MessageRepeatedError extends Error {
  override readonly name = 'MessageRepeatedError';
  readonly code = 'A2A_MESSAGE_REPEATED';

  constructor(
    /** The store's key of the task that the first copy of the message was for. */
    readonly taskNo: number,
  ) {
    super('The message was accepted before.');
  }
}
