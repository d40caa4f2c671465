import { createHash } from 'node:crypto';
import type { QueryConfig } from 'pg';
import { messageOf } from '../../errors/described.js';
import { sqlState } from './database-errors.js';
import { LibraryLogger } from '../../logging/library.logger.js';

/** A hash of the text, so that one name never stands for two statements, whoever shares a connection. */
export const statementName = (text: string): string =>
  `a2a_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`;

/**
 * Why a statement was not run for having been prepared. `pooler`: the session does not know it, or knows it already, since
 * it is another session than it was. `stale plan`: a table was altered, and the plan that this one connection has would
 * give other columns than before.
 */
export type PreparationRefusal = 'pooler' | 'stale plan';

/** How often one statement gets another name within this time, in ms. A table is not altered more often than that. */
const MAX_RENEWALS = 3;
const RENEWALS_WITHIN_MS = 60_000;

interface Prepared {
  name: string;
  /** Of all names so far. */
  names: number;
  /** The monotonic times at which the last of them were given up. */
  renewedAt: number[];
}

/**
 * Statements that each connection parses and plans once instead of at every call.
 *
 * Only for statements that find their rows by keys: PostgreSQL makes one plan of them for all parameters, without looking
 * at their values.
 */
export class PreparedStatements {
  private readonly logger = new LibraryLogger('A2AClusterDatabase');
  private readonly prepared = new Map<string, Prepared>();
  private refused = false;

  /** From now on this text is prepared. Returns it. */
  add(text: string): string {
    if (!this.prepared.has(text)) {
      this.prepared.set(text, { name: statementName(text), names: 1, renewedAt: [] });
    }
    return text;
  }

  /** A query as pg takes it. */
  configOf(text: string, values: unknown[]): QueryConfig {
    const name = this.refused ? undefined : this.prepared.get(text)?.name;
    return name === undefined ? { text, values } : { name, text, values };
  }

  /**
   * Whether the statement failed for having been prepared, and how; undefined where it failed for another reason. It was
   * not run then, and `configOf` gives another way to run it, so it may be sent again at once: without a name from now on
   * (`pooler`), or under a new name, which every connection plans anew (`stale plan`). In a transaction the transaction
   * has to be run again.
   */
  refusalOf(error: unknown, { name, text }: QueryConfig): PreparationRefusal | undefined {
    if (name === undefined) return undefined;
    switch (sqlState(error)) {
      case '26000': // it does not exist
      case '42P05': // it exists already
        this.turnOff(error);
        return 'pooler';
      // Of a statement that is sent with a name: "cached plan must not change result type". Any other feature that is not
      // supported fails under the new name and then without one, and says so itself.
      case '0A000':
        this.renew(text, name, error);
        return 'stale plan';
      default:
        return undefined;
    }
  }

  /** Whether the statement failed for having been prepared. Then it may be run again. */
  isRefused(error: unknown, statement: QueryConfig): boolean {
    return this.refusalOf(error, statement) !== undefined;
  }

  private turnOff(error: unknown): void {
    if (this.refused) return;
    this.refused = true;
    this.logger.warn(
      'Statements are not prepared any more: a session of the database did not know one that it was to have, as behind a ' +
        'pooler in transaction mode. The database now parses and plans each statement at every call. Connect directly or ' +
        `in session mode, or let the pooler keep prepared statements, and restart: ${messageOf(error)}`,
    );
  }

  private renew(text: string, name: string, error: unknown): void {
    const prepared = this.prepared.get(text);
    // Of many that fail at once the first gives the name up for all.
    if (prepared?.name !== name) return;
    const now = performance.now();
    prepared.renewedAt = [...prepared.renewedAt.filter((at) => now - at < RENEWALS_WITHIN_MS), now];
    if (prepared.renewedAt.length > MAX_RENEWALS) {
      this.prepared.delete(text);
      this.logger.warn(
        `A statement is not prepared any more, since each of its plans was refused: ${messageOf(error)}`,
      );
      return;
    }
    prepared.names += 1;
    prepared.name = `${statementName(text)}_${prepared.names}`;
  }
}
