/** The request in a lease cannot be run as the caller who sent it. */
export class RequestNotRestoredError extends Error {
  override readonly name = 'RequestNotRestoredError';
  readonly code = 'A2A_REQUEST_NOT_RESTORED';
}
