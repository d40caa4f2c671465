/** This replica shuts down and asks its database nothing any more: nothing was done, and another replica will do it. */
export class DatabaseClosedError extends Error {
  override readonly name = 'DatabaseClosedError';
  readonly code = 'A2A_DATABASE_CLOSED';

  constructor() {
    super('This replica is shutting down and has closed its connections to the database; ask another one.');
  }
}
