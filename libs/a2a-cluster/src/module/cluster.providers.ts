import type { DynamicModule, Provider, Type } from '@nestjs/common';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { AgentExecutor } from '@a2a-js/sdk/server';
import type { DataSource } from 'typeorm';
import { EffectStore } from '../effects/effect-store.js';
import { Heartbeat } from '../leases/heartbeat.js';
import { LeaseStore } from '../leases/lease-store.js';
import { type A2AClusterOptions, ResolvedOptions, resolveOptions } from '../options/cluster.options.js';
import { type A2AClusterStaticOptions, resolveStatic, StaticOptions } from '../options/static.options.js';
import { CLUSTER_DATA_SOURCE, DatabaseAccess } from '../postgres/connection/database-access.js';
import { TypeOrmLeaseStore } from '../postgres/leases/typeorm-lease-store.js';
import { TypeOrmTaskEventStream } from '../postgres/streams/typeorm-task-event-stream.js';
import { TypeOrmTaskStore } from '../postgres/tasks/typeorm-task-store.js';
import { AgentCards } from '../protocol/agent-cards.js';
import { AgentEndpoints } from '../protocol/agent-endpoints.js';
import { CallersTasks } from '../protocol/callers-tasks.js';
import { ClusterRequestHandler } from '../protocol/cluster.request-handler.js';
import { IncomingMessages } from '../protocol/incoming-messages.js';
import { LargeAnswers } from '../protocol/large-answers.js';
import { PushReceivers } from '../protocol/push-receivers.js';
import { A2A_REQUEST_HANDLER } from '../protocol/request-handler.token.js';
import { SettledTasks } from '../protocol/settled-tasks.js';
import { TaskCancellation } from '../protocol/task-cancellation.js';
import { TurnAnswers } from '../protocol/turn-answers.js';
import { PushClient } from '../push/push-client.js';
import { PushConfigStore } from '../push/push-config-store.js';
import { PushDispatcher } from '../push/push-dispatcher.js';
import { PushTargetGuard } from '../push/push-target.guard.js';
import { AbandonedLeases } from '../recovery/abandoned-leases.js';
import { AbandonedTaskSweeper } from '../recovery/abandoned-task.sweeper.js';
import { AbandonedTurnRecovery } from '../recovery/abandoned-turn.recovery.js';
import { InterruptedTaskTimeout } from '../recovery/interrupted-task.timeout.js';
import { ReExecution } from '../recovery/re-execution.js';
import { SweepTrigger } from '../recovery/sweep-trigger.js';
import { UnleasedTasksLook } from '../recovery/unleased-tasks.look.js';
import { Retention } from '../retention/retention.js';
import { Poller } from '../streams/poller.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { OpenResponses } from '../transports/flow/open-responses.js';
import { UnsentBytes } from '../transports/flow/unsent-bytes.js';
import { A2AGrpcServer } from '../transports/grpc/a2a-grpc.server.js';
import { GrpcModules, loadGrpcModules } from '../transports/grpc/grpc-modules.js';
import { GrpcServer } from '../transports/grpc/grpc.server.js';
import { GrpcServices } from '../transports/grpc/grpc.services.js';
import { AgentCardRoute } from '../transports/http/agent-card.route.js';
import { BodyParserSetup } from '../transports/http/body-parser.setup.js';
import { transportControllers } from '../transports/http/controllers.js';
import { TransportEndpoints } from '../transports/http/transport-endpoints.js';
import { ReplicaTransports } from '../transports/replica-transports.js';
import { ServedEndpoints } from '../transports/served-endpoints.js';
import { AbandonedRecovery } from '../turns/abandoned-recovery.js';
import { CancelTurns } from '../turns/cancel-turns.js';
import { ExecutorInvoker } from '../turns/executor/executor-invoker.js';
import { ExecutorProvider } from '../turns/executor/executor-provider.js';
import { TurnFenceInterceptor } from '../turns/executor/turn-fence.interceptor.js';
import { LeaseWatch } from '../turns/lease-watch.js';
import { MessageTurns } from '../turns/message-turns.js';
import { RunningTurns } from '../turns/running-turns.js';
import { TurnAdmission } from '../turns/turn-admission.js';
import { TurnConclusion } from '../turns/turn-conclusion.js';
import { TurnDrain } from '../turns/turn-drain.js';
import { TurnFactory } from '../turns/turn-factory.js';
import { TurnRunner } from '../turns/turn-runner.js';
import { A2AClusterLifecycle } from './lifecycle.js';
import { ReplicaLoops } from './replica-loops.js';
import { SeparateAgents } from './separate-agents.js';
import { STORE_PROVIDERS } from './store.providers.js';

/** Injects the options as they were given. */
export const A2A_CLUSTER_OPTIONS = Symbol('A2A_CLUSTER_OPTIONS');

/** The five ports, with the library's own stores. `extraProviders` replace them. */
const STORES: Provider[] = [
  { provide: LeaseStore, useClass: TypeOrmLeaseStore },
  { provide: VersionedTaskStore, useClass: TypeOrmTaskStore },
  { provide: TaskEventStream, useClass: TypeOrmTaskEventStream },
  ...STORE_PROVIDERS,
];

const LEASES_AND_STREAMS: Provider[] = [Heartbeat, Poller, Retention];

const TURNS: Provider[] = [
  RunningTurns,
  TurnFactory,
  TurnAdmission,
  TurnRunner,
  TurnConclusion,
  TurnDrain,
  MessageTurns,
  CancelTurns,
  LeaseWatch,
  ExecutorProvider,
  ExecutorInvoker,
  TurnFenceInterceptor,
];

const RECOVERY: Provider[] = [
  AbandonedLeases,
  AbandonedTurnRecovery,
  { provide: AbandonedRecovery, useExisting: AbandonedTurnRecovery },
  AbandonedTaskSweeper,
  ReExecution,
  InterruptedTaskTimeout,
  UnleasedTasksLook,
  SweepTrigger,
];

const PUSH: Provider[] = [PushTargetGuard, PushClient, PushDispatcher];

const PROTOCOL: Provider[] = [
  AgentCards,
  CallersTasks,
  IncomingMessages,
  TurnAnswers,
  SettledTasks,
  TaskCancellation,
  PushReceivers,
  LargeAnswers,
  ClusterRequestHandler,
  { provide: A2A_REQUEST_HANDLER, useExisting: ClusterRequestHandler },
];

const TRANSPORTS: Provider[] = [
  OpenResponses,
  UnsentBytes,
  TransportEndpoints,
  BodyParserSetup,
  AgentCardRoute,
  { provide: GrpcModules, useFactory: loadGrpcModules, inject: [ResolvedOptions] },
  GrpcServer,
  { provide: A2AGrpcServer, useExisting: GrpcServer },
  GrpcServices,
  { provide: AgentEndpoints, useClass: ServedEndpoints },
  ReplicaTransports,
];

/** The dynamic module: what is in `extras` decides its shape, all else is decided when the options are there. */
export function clusterModule(definition: DynamicModule, extras: A2AClusterStaticOptions): DynamicModule {
  const parts = resolveStatic(extras);
  return {
    ...definition,
    global: extras.isGlobal ?? false,
    imports: [...new Set([...(definition.imports ?? []), ...(extras.imports ?? [])])],
    controllers: transportControllers(parts.transports, parts.guards),
    providers: [
      ...(definition.providers ?? []),
      ...(typeof extras.executor === 'function' ? [extras.executor as Type<AgentExecutor>] : []),
      { provide: StaticOptions, useValue: parts },
      {
        provide: ResolvedOptions,
        useFactory: (given: A2AClusterOptions) => resolveOptions(given, parts.transports),
        inject: [A2A_CLUSTER_OPTIONS],
      },
      {
        provide: CLUSTER_DATA_SOURCE,
        useFactory: (found?: DataSource) => found,
        inject: [{ token: getDataSourceToken(parts.dataSource), optional: true }],
      },
      DatabaseAccess,
      ...STORES,
      ...LEASES_AND_STREAMS,
      ...TURNS,
      ...RECOVERY,
      ...PUSH,
      ...PROTOCOL,
      ...TRANSPORTS,
      SeparateAgents,
      ReplicaLoops,
      A2AClusterLifecycle,
      ...(extras.extraProviders ?? []),
    ],
    exports: [
      ...(definition.exports ?? []),
      LeaseStore,
      VersionedTaskStore,
      TaskEventStream,
      EffectStore,
      PushConfigStore,
      AbandonedTaskSweeper,
      A2A_REQUEST_HANDLER,
      A2AGrpcServer,
    ],
  };
}
