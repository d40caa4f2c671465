import { type DynamicModule, Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { A2AClusterModule } from 'nestjs-a2a-cluster';
import { agentCard } from './agent/agent-card.js';
import { ReportAgent } from './agent/report-agent.executor.js';
import { ReportArchive } from './agent/report.archive.js';
import type { AppConfig } from './config.js';
import { dataSourceOptions } from './database.js';

/** What the agent works with; the cluster module makes the agent with these in sight. */
@Module({ providers: [ReportArchive], exports: [ReportArchive] })
class ReportModule {}

/** A whole agent app: its database, a scheduler for the recovery, and the cluster module that serves the agent. */
@Module({})
export class AppModule {
  static forRoot(config: AppConfig, publicUrl: string): DynamicModule {
    return {
      module: AppModule,
      imports: [
        TypeOrmModule.forRoot({ ...dataSourceOptions(config.databaseUrl), retryAttempts: 1 }),
        ScheduleModule.forRoot(),
        A2AClusterModule.forRoot({
          executor: ReportAgent,
          imports: [ReportModule],
          agentCard,
          publicUrl,
          // What a dead replica leaves is run again: the agent files its report as an effect, once.
          sweeper: { policy: 're-execute' },
        }),
      ],
    };
  }
}
