/**
 * The connection to the database was lost, could not be made, or leads to a server that takes no writes. Whether a
 * statement that was under way took effect is unknown.
 */
export class DatabaseConnectionError extends Error {
  override readonly name = 'DatabaseConnectionError';
  readonly code = 'A2A_DATABASE_CONNECTION';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
  }
}
