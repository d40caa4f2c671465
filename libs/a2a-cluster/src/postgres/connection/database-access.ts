import type { ClusterDatabase } from './cluster-database.js';

/**
 * The database, asked for only by what really uses it: an app whose stores are all its own needs none, and one that
 * does is told what is missing.
 */
export class DatabaseAccess {
  private made: ClusterDatabase | undefined;

  constructor(private readonly make: () => ClusterDatabase) {}

  /** Throws {@link ClusterOptionsError} where the app has no DataSource that can be used. */
  require(): ClusterDatabase {
    this.made ??= this.make();
    return this.made;
  }

  /** The database if anything has asked for it. */
  get used(): ClusterDatabase | undefined {
    return this.made;
  }
}
