/** A push notification may not be sent to this address. */
export class RefusedTargetError extends Error {
  override readonly name = 'RefusedTargetError';
  readonly code = 'A2A_REFUSED_TARGET';
}
