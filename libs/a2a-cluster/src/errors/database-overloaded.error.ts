import { StoreUnavailableError } from './store-unavailable.error.js';

/** So many calls wait for a connection to the database already that this one is refused at once. Nothing was done. */
export class DatabaseOverloadedError extends StoreUnavailableError {
  override readonly name = 'DatabaseOverloadedError';
  override readonly code = 'A2A_DATABASE_OVERLOADED';

  constructor(
    /** How many calls wait. */
    readonly waiting: number,
  ) {
    super(`${waiting} calls wait for a connection to the database already: this one is refused.`, { mayBeDone: false });
  }
}
