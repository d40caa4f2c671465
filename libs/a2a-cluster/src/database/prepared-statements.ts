import { createHash } from 'node:crypto';
import type { QueryConfig } from 'pg';
import { isPreparedRefusal } from './database-errors.js';

/** A hash of the text, so that one name never stands for two statements, whoever shares a connection. */
export const statementName = (text: string): string =>
  `a2a_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`;

/**
 * Statements that each connection parses and plans once instead of at every call.
 *
 * Only for statements that find their rows by keys: PostgreSQL makes one plan of them for all parameters, without looking
 * at their values.
 */
export class PreparedStatements {
  private readonly names = new Map<string, string>();
  private refused = false;

  /** From now on this text is prepared. Returns it. */
  add(text: string): string {
    this.names.set(text, statementName(text));
    return text;
  }

  /** What pg is given. */
  configOf(text: string, values: unknown[]): QueryConfig {
    const name = this.refused ? undefined : this.names.get(text);
    return name === undefined ? { text, values } : { name, text, values };
  }

  /** Whether the statement failed for having been prepared. Then none is prepared any more, and it may be run again. */
  isRefused(error: unknown, { name }: QueryConfig): boolean {
    if (name === undefined || !isPreparedRefusal(error)) return false;
    this.refused = true;
    return true;
  }
}
