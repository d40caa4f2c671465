import type { AgentCard } from '@a2a-js/sdk';
import type { A2ARequestHandler, ExecutionEventBus } from '@a2a-js/sdk/server';
import { type INestApplicationContext, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import {
  A2A_CLUSTER_ENTITIES,
  A2A_REQUEST_HANDLER,
  A2AClusterModule,
  type A2AClusterOptions,
  AbandonedTaskSweeper,
  currentTurn,
  type TurnExecutor,
  type TurnRequestContext,
} from 'nestjs-a2a-cluster';
import { LeaseStore } from 'nestjs-a2a-cluster/stores';
import { runScript } from '../agent/script.js';
import { POOL_SIZE } from '../environment.js';
import type { AgentServer } from './agent-server.js';

export type OursOptions = Partial<Pick<A2AClusterOptions, 'leases' | 'sweeper' | 'streams' | 'turns'>>;

export interface OursServer extends AgentServer {
  sweeper: AbandonedTaskSweeper;
  leases: LeaseStore;
}

@Module({})
class BenchModule {}

/** One replica with this library, in this process and without HTTP. All options are the defaults unless given. */
export async function startOurs(url: string, options: OursOptions = {}): Promise<OursServer> {
  let release!: () => void;
  const released = new Promise<void>((resolve) => (release = resolve));

  @Injectable()
  class BenchAgent implements TurnExecutor {
    execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
      return runScript(context, bus, { released, stored: () => currentTurn().flush() });
    }

    cancelTask(): Promise<void> {
      return Promise.resolve();
    }
  }

  const app: INestApplicationContext = await NestFactory.createApplicationContext(
    {
      module: BenchModule,
      imports: [
        TypeOrmModule.forRoot({
          type: 'postgres',
          url,
          entities: A2A_CLUSTER_ENTITIES,
          retryAttempts: 0,
          extra: { max: POOL_SIZE },
        }),
        ScheduleModule.forRoot(),
        A2AClusterModule.forRoot({
          executor: BenchAgent,
          agentCard: CARD,
          publicUrl: 'http://127.0.0.1',
          ...options,
        }),
      ],
    },
    { logger: ['error', 'fatal'], abortOnError: false },
  );
  return {
    handler: app.get<A2ARequestHandler>(A2A_REQUEST_HANDLER, { strict: false }),
    sweeper: app.get(AbandonedTaskSweeper, { strict: false }),
    leases: app.get(LeaseStore, { strict: false }),
    release,
    close: () => app.close(),
  };
}

const CARD: Pick<AgentCard, 'name' | 'description' | 'version'> = {
  name: 'bench agent',
  description: 'publishes what its message says',
  version: '1.0.0',
};
