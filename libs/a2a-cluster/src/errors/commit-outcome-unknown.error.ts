import { StoreUnavailableError } from './store-unavailable.error.js';

/**
 * The connection failed while a transaction was being committed: it may have been, or not. Look before trying again.
 */
export class CommitOutcomeUnknownError extends StoreUnavailableError {
  override readonly name = 'CommitOutcomeUnknownError';
  override readonly code = 'A2A_COMMIT_OUTCOME_UNKNOWN';

  constructor(cause: unknown) {
    super('The connection was lost during COMMIT.', { cause });
  }
}
