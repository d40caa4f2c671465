import { StoreUnavailableError } from './store-unavailable.error.js';

/**
 * The connection to the database was lost, could not be made, or leads to a server that takes no writes. A single statement
 * that was under way may have taken effect (`mayBeDone`); a transaction that was not being committed has not.
 */
export class DatabaseConnectionError extends StoreUnavailableError {
  override readonly name = 'DatabaseConnectionError';
  override readonly code = 'A2A_DATABASE_CONNECTION';
}
