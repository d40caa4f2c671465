import { type DynamicModule, Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { A2AClusterModule } from 'nestjs-a2a-cluster';
import { conformanceCard } from '../conformance/agent-card.js';
import { ConformanceAgent } from '../conformance/conformance-agent.executor.js';
import { agentCard } from '../scripted-agent/agent-card.js';
import { LedgerModule } from '../scripted-agent/ledger/ledger.module.js';
import { ScriptedAgent } from '../scripted-agent/scripted-agent.executor.js';
import { bearerUser, grpcBearerUser } from './bearer-user.js';
import type { AgentName, ReplicaConfig } from './config.js';
import { replicaDataSource } from './database.js';

/** Who answers. The kit sends the same message over and over and means a new task each time. */
const AGENTS = {
  scripted: { executor: ScriptedAgent, agentCard, turns: {} },
  conformance: { executor: ConformanceAgent, agentCard: conformanceCard, turns: { messageIdWindowMs: 0 } },
} satisfies Record<AgentName, object>;

/** The app of a replica: its database, a scheduler, the ledger, and the cluster module with all that a config may set. */
@Module({})
export class ReplicaModule {
  static forRoot(config: ReplicaConfig, publicUrl: string): DynamicModule {
    const agent = AGENTS[config.agent];
    return {
      module: ReplicaModule,
      imports: [
        TypeOrmModule.forRoot({ ...replicaDataSource(config.databaseUrl), retryAttempts: 1 }),
        ScheduleModule.forRoot(),
        A2AClusterModule.forRoot({
          executor: agent.executor,
          ...given({ agentId: config.agentId }),
          imports: [LedgerModule.forRoot(config.ledgerDatabaseUrl)],
          agentCard: agent.agentCard,
          publicUrl,
          userBuilder: bearerUser,
          grpc: grpcOptions(config),
          legacyCompat: config.compatV03,
          leases: config.leases && given({ heartbeatIntervalMs: config.heartbeatMs, ttlMs: config.ttlMs }),
          streams: given({ pollIntervalMs: config.pollMs, stallTimeoutMs: config.stallMs }),
          push: { allow: [...config.pushAllow] },
          turns: given({ ...agent.turns, drainTimeoutMs: config.drainMs, cancelTimeoutMs: config.cancelMs }),
          ...given({ sweeper: sweeperOptions(config), interruptedTaskTimeoutMs: config.interruptedMs }),
        }),
      ],
    };
  }
}

function grpcOptions({ grpcPort: port, grpcPublicUrl: publicUrl, host }: ReplicaConfig) {
  return port !== undefined && { port, host, userBuilder: grpcBearerUser, ...given({ publicUrl }) };
}

/** Absent unless one of its settings is given: without leases the library accepts no sweeper. */
function sweeperOptions({ sweepMs, policy, maxAttempts, backoffMs }: ReplicaConfig) {
  const options = given({ intervalMs: sweepMs, policy, maxAttempts, backoffMs });
  return Object.keys(options).length > 0 ? options : undefined;
}

/** The entries that have a value. What is left out gets the library's default. */
function given<T extends object>(settings: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(settings).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
