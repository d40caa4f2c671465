import { StoreUnavailableError } from './store-unavailable.error.js';

/** The database did not answer in time. The connection was dropped; whether the statement took effect is unknown. */
export class DatabaseTimeoutError extends StoreUnavailableError {
  override readonly name = 'DatabaseTimeoutError';
  override readonly code = 'A2A_DATABASE_TIMEOUT';

  constructor(readonly timeoutMs: number) {
    super(`The database did not answer within ${timeoutMs} ms.`);
  }
}
