import { requireWhole, withoutUndefined } from './rules.js';

/** The library's own use of the database. */
export interface DatabaseOptions {
  /**
   * How many connections the library opens at most for each module, beside those of the app's own pool. Three of them
   * are opened at boot and kept: one for renewals, one for cancels and recovery, one for the rest. With
   * `streams.notify` one more listens, which is not counted.
   *
   * A whole number from 4 to 10 000. Default: 10, as `pg`'s pool has it.
   */
  maxConnections: number;
}

/** As many as pg-pool opens by default. */
export const DEFAULT_CONNECTIONS = 10;

/** With fewer connections the lanes of the library's queue would have none to leave to each other. */
export const LEAST_CONNECTIONS = 4;

const DATABASE_DEFAULTS: DatabaseOptions = {
  maxConnections: DEFAULT_CONNECTIONS,
};

/** The database options with their defaults. Throws `ClusterOptionsError`. */
export function resolveDatabase(given: Partial<DatabaseOptions> | undefined): DatabaseOptions {
  const database: DatabaseOptions = { ...DATABASE_DEFAULTS, ...withoutUndefined(given) };
  requireWhole('database.maxConnections', database.maxConnections, LEAST_CONNECTIONS, 10_000);
  return database;
}
