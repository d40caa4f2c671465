/** A session that kept a migration from its lock, as far as the role that migrates may see it. */
export interface BlockingSession {
  pid: number;
  applicationName: string | null;
  /** Such as `idle in transaction`. */
  state: string | null;
  /** How long its transaction has been open, in s. */
  openForSeconds: number | null;
  /** The statement that it runs, or ran last. */
  query: string | null;
}

/** How much of a query is shown, in characters. */
const SHOWN_QUERY = 200;

/** A migration did not get the lock it needs. Nothing of the step was done, and it may be run again. */
export class MigrationBlockedError extends Error {
  override readonly name = 'MigrationBlockedError';
  readonly code = 'A2A_MIGRATION_BLOCKED';

  constructor(
    reason: string,
    /** The sessions that held its lock; empty if they could not be read. */
    readonly blockedBy: readonly BlockingSession[],
    options?: ErrorOptions,
  ) {
    super(`A migration of A2AClusterModule ${reason}. ${named(blockedBy)}`, options);
  }
}

function named(sessions: readonly BlockingSession[]): string {
  if (sessions.length === 0) {
    return 'Who holds the lock could not be read: look at pg_locks and pg_stat_activity, and run the migration again.';
  }
  return `It waited for ${sessions.map(described).join('; and for ')}. End what holds the lock, and run the migration again.`;
}

function described({ pid, applicationName, state, openForSeconds, query }: BlockingSession): string {
  // PostgreSQL gives prepared transactions the number 0: no session has them.
  if (pid === 0) return 'a prepared transaction (see pg_prepared_xacts)';
  const name = applicationName ? `application '${applicationName}'` : 'an application without a name';
  const open = openForSeconds === null ? '' : `, its transaction open for ${openForSeconds} s`;
  const shown = query && query.length > SHOWN_QUERY ? `${query.slice(0, SHOWN_QUERY)}…` : query;
  return `session ${pid} (${name}, ${state ?? 'state unknown'}${open}, last query: ${shown?.replace(/\s+/g, ' ') ?? 'unknown'})`;
}
