import type { DynamicModule, InjectionToken, Provider, Type } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { AgentExecutor } from '@a2a-js/sdk/server';
import type { DataSource } from 'typeorm';
import { A2A_CLUSTER_OPTIONS, A2A_REQUEST_HANDLER } from './tokens.js';
import { A2AClusterLifecycle, type LifecycleParts } from './lifecycle.js';
import { type A2AClusterOptions, ResolvedOptions, resolveOptions } from '../options/cluster.options.js';
import { type A2AClusterStaticOptions, resolveStatic, StaticOptions } from '../options/static.options.js';
import { requireUsable } from './schema-check.js';
import { ClusterDatabase, type DatabaseLimits, SERVER_MARGIN_MS } from '../postgres/connection/cluster-database.js';
import { DatabaseAccess } from '../postgres/connection/database-access.js';
import { EffectStore } from '../effects/effect-store.js';
import { Heartbeat } from '../leases/heartbeat.js';
import { LeaseStore } from '../leases/lease-store.js';
import { A2AGrpcServer } from '../transports/grpc/a2a-grpc.server.js';
import { transportControllers } from '../transports/http/controllers.js';
import { OpenResponses } from '../transports/flow/open-responses.js';
import { PushConfigStore } from '../push/push-config-store.js';
import { PushDispatcher } from '../push/push-dispatcher.js';
import { AbandonedTaskSweeper } from '../recovery/abandoned-task.sweeper.js';
import { SweepTrigger } from '../recovery/sweep-trigger.js';
import { UnleasedTasksLook } from '../recovery/unleased-tasks.look.js';
import { Retention } from '../retention/retention.js';
import { Poller } from '../streams/poller.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { ExecutorProvider } from '../turns/executor/executor-provider.js';
import { TurnDrain } from '../turns/turn-drain.js';
import { BODY_PARSER, GRPC_SERVICES, MIN_STATEMENT_TIMEOUT_MS, provide } from './provide.js';
import { protocolProviders } from './protocol-providers.js';
import { recoveryProviders } from './recovery-providers.js';
import { storeProviders } from './store-providers.js';
import { turnProviders } from './turn-providers.js';

/** The dynamic module: what is in `extras` decides its shape, all else is decided when the options are there. */
export function clusterModule(definition: DynamicModule, extras: A2AClusterStaticOptions): DynamicModule {
  const parts = resolveStatic(extras);
  const stores = [LeaseStore, VersionedTaskStore, TaskEventStream, EffectStore, PushConfigStore];
  return {
    ...definition,
    global: extras.isGlobal ?? false,
    imports: [...new Set([...(definition.imports ?? []), ...(extras.imports ?? [])])],
    controllers: transportControllers(parts.transports, parts.guards),
    providers: [
      ...(definition.providers ?? []),
      { provide: StaticOptions, useValue: parts },
      ...(typeof extras.executor === 'function' ? [extras.executor as Type<AgentExecutor>] : []),
      ...providers(parts),
      ...(extras.extraProviders ?? []),
    ],
    exports: [...(definition.exports ?? []), ...stores, AbandonedTaskSweeper, A2A_REQUEST_HANDLER, A2AGrpcServer],
  };
}

function providers({ dataSource }: StaticOptions): Provider[] {
  return [
    provide(
      ResolvedOptions,
      (given: A2AClusterOptions, { transports }: StaticOptions) => resolveOptions(given, transports),
      [A2A_CLUSTER_OPTIONS, StaticOptions],
    ),
    provide(
      DatabaseAccess,
      (options: ResolvedOptions, parts: StaticOptions, found: DataSource | undefined) =>
        new DatabaseAccess(() => new ClusterDatabase(requireUsable(found, parts.dataSource), databaseLimits(options))),
      [ResolvedOptions, StaticOptions, { token: getDataSourceToken(dataSource), optional: true }],
    ),
    ...storeProviders(),
    ...turnProviders(),
    ...recoveryProviders(),
    ...protocolProviders(),
    {
      provide: A2AClusterLifecycle,
      useFactory: (
        database: DatabaseAccess,
        { transports }: StaticOptions,
        { legacyCompat }: ResolvedOptions,
        ...rest: unknown[]
      ) =>
        new A2AClusterLifecycle({
          database,
          transports,
          legacyCompat,
          ...zip(LIFECYCLE_PARTS, rest),
        }),
      inject: [DatabaseAccess, StaticOptions, ResolvedOptions, ...Object.values(LIFECYCLE_PARTS), ...BESIDE],
    },
  ];
}

/** How much of a lease's TTL a statement may take on the server: what its holder sent is then over before it is claimed. */
const STATEMENT_SHARE = 0.9;

function databaseLimits({ leases, database }: ResolvedOptions): DatabaseLimits {
  const { maxConnections } = database;
  if (!leases) return { maxTimeoutMs: MIN_STATEMENT_TIMEOUT_MS, maxConnections };
  const { heartbeatIntervalMs, ttlMs } = leases;
  const maxTimeoutMs = Math.max(MIN_STATEMENT_TIMEOUT_MS, heartbeatIntervalMs);
  return {
    maxTimeoutMs,
    maxTransactionMs: ttlMs / 3,
    serverLimitMs: Math.min(maxTimeoutMs + SERVER_MARGIN_MS, ttlMs * STATEMENT_SHARE),
    maxConnections,
  };
}

/** What nobody else asks for, and is to be made all the same. */
const BESIDE = [Retention, BODY_PARSER, GRPC_SERVICES];

type GivenParts = Pick<LifecycleParts, 'database' | 'transports' | 'legacyCompat'>;

const LIFECYCLE_PARTS = {
  executor: ExecutorProvider,
  adapterHost: HttpAdapterHost,
  requestHandler: A2A_REQUEST_HANDLER,
  drain: TurnDrain,
  responses: OpenResponses,
  grpc: A2AGrpcServer,
  push: PushDispatcher,
  stream: TaskEventStream,
  poller: Poller,
  leases: LeaseStore,
  heartbeat: Heartbeat,
  sweep: SweepTrigger,
  unleased: UnleasedTasksLook,
} satisfies Record<Exclude<keyof LifecycleParts, keyof GivenParts>, InjectionToken>;

function zip(names: typeof LIFECYCLE_PARTS, values: unknown[]): Omit<LifecycleParts, keyof GivenParts> {
  return Object.fromEntries(Object.keys(names).map((name, at) => [name, values[at]])) as never;
}
