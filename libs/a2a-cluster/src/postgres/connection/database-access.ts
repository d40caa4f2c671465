import { Inject, Injectable, Optional } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { ResolvedOptions } from '../../options/cluster.options.js';
import { StaticOptions } from '../../options/static.options.js';
import { requireUsable } from '../schema/usable-data-source.js';
import { ClusterDatabase } from './cluster-database.js';
import { databaseLimits } from './database-limits.js';

/** Injects the DataSource that the static option `dataSource` names; undefined where the app has none. */
export const CLUSTER_DATA_SOURCE = Symbol('A2A_CLUSTER_DATA_SOURCE');

/**
 * The database, asked for only by what really uses it: an app whose stores are all its own needs none, and one that
 * does is told what is missing.
 */
@Injectable()
export class DatabaseAccess {
  private made: ClusterDatabase | undefined;

  constructor(
    private readonly options: ResolvedOptions,
    private readonly parts: StaticOptions,
    @Optional() @Inject(CLUSTER_DATA_SOURCE) private readonly dataSource?: DataSource,
  ) {}

  /** Throws {@link ClusterOptionsError} where the app has no DataSource that can be used. */
  require(): ClusterDatabase {
    this.made ??= this.make();
    return this.made;
  }

  /** The database if anything has asked for it. */
  get used(): ClusterDatabase | undefined {
    return this.made;
  }

  protected make(): ClusterDatabase {
    return new ClusterDatabase(requireUsable(this.dataSource, this.parts.dataSource), databaseLimits(this.options));
  }
}
