/** A request body is JSON that no request can be. */
export class UnfitBodyError extends Error {
  override readonly name = 'UnfitBodyError';
  readonly code = 'A2A_UNFIT_BODY';
}
