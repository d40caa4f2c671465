/** The work of a transaction has ended that transaction by itself. */
export class EndedByWorkError extends Error {
  override readonly name = 'EndedByWorkError';
  readonly code = 'A2A_ENDED_BY_WORK';
}
