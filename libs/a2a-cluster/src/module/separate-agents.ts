import { Injectable } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { StaticOptions } from '../options/static.options.js';
import { DatabaseAccess } from '../postgres/connection/database-access.js';

/** Refuses two instances of the module in one app that would serve the same tasks or the same paths. */
@Injectable()
export class SeparateAgents {
  constructor(
    private readonly modules: ModulesContainer,
    private readonly parts: StaticOptions,
    private readonly database: DatabaseAccess,
  ) {}

  /** Throws {@link ClusterOptionsError}. */
  verify(): void {
    for (const module of this.modules.values()) {
      const other = module.providers.get(StaticOptions)?.instance as StaticOptions | undefined;
      if (!other || other === this.parts) continue;
      const database = module.providers.get(DatabaseAccess)?.instance as DatabaseAccess | undefined;
      if (this.database.used && database?.used) this.requireOtherTasks(other);
      this.requireOtherPaths(other);
    }
  }

  /** Of two agents with the same tasks each would recover, and run, the turns of the other one. */
  private requireOtherTasks({ agentId, dataSource }: StaticOptions): void {
    if (agentId !== this.parts.agentId || dataSource !== this.parts.dataSource) return;
    throw ClusterOptionsError.rule(
      'agentId',
      agentId,
      'another A2AClusterModule of this app has the same agentId and DataSource: give each agent its own',
    );
  }

  /** Of two handlers for one path the second one is never called. */
  private requireOtherPaths({ transports: others }: StaticOptions): void {
    const { transports } = this.parts;
    const taken = [others.jsonRpc, others.rest, others.agentCard];
    for (const name of ['jsonRpc', 'rest', 'agentCard'] as const) {
      const path = transports[name];
      if (path === false || !taken.includes(path)) continue;
      throw ClusterOptionsError.rule(
        `transports.${name}`,
        path,
        'another A2AClusterModule of this app serves this path: give each agent paths of its own',
      );
    }
  }
}
