/** The database shows that a transaction whose COMMIT had no answer was rolled back. */
export class TransactionNotRecordedError extends Error {
  override readonly name = 'TransactionNotRecordedError';
  readonly code = 'A2A_TRANSACTION_NOT_RECORDED';
}
