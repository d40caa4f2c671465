import type { DynamicModule, FactoryProvider, InjectionToken, Provider, Type } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { SchedulerRegistry } from '@nestjs/schedule';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { AgentExecutor } from '@a2a-js/sdk/server';
import type { DataSource } from 'typeorm';
import { A2A_CLUSTER_OPTIONS, A2A_REQUEST_HANDLER, RESOLVED_OPTIONS, STATIC_OPTIONS } from './a2a-cluster.constants.js';
import { A2AClusterLifecycle, type LifecycleParts } from './a2a-cluster.lifecycle.js';
import {
  type A2AClusterStaticOptions,
  DEFAULT_SWEEP_MS,
  type ResolvedOptions,
  resolveOptions,
  resolveTransports,
} from './a2a-cluster.options.js';
import { requireUsable } from './a2a-cluster.schema-check.js';
import { ClusterDatabase } from './database/cluster-database.js';
import { DatabaseAccess } from './database/database-access.js';
import { newReplicaId } from './database/replica-id.js';
import { sqlName } from './database/table-names.js';
import { ClusterOptionsError } from './errors/cluster-options.error.js';
import { Heartbeat } from './leases/heartbeat.js';
import { LeaseStore } from './leases/lease-store.js';
import { LeaseEntity } from './leases/lease.entity.js';
import { TypeOrmLeaseStore } from './leases/typeorm-lease-store.js';
import { PushConfigEntity } from './push/push-config.entity.js';
import { AgentCards } from './protocol/agent-cards.js';
import { a2aBodyParser } from './protocol/body-parser.js';
import { ClusterRequestHandler } from './protocol/cluster.request-handler.js';
import { transportControllers } from './protocol/controllers.js';
import { OpenResponses } from './protocol/open-responses.js';
import { TaskCancellation } from './protocol/task-cancellation.js';
import { globalPrefix, TransportEndpoints } from './protocol/transport-endpoints.js';
import type { TransportPaths } from './protocol/transport-paths.js';
import { TurnAnswers } from './protocol/turn-answers.js';
import { AbandonedTaskSweeper } from './recovery/abandoned-task.sweeper.js';
import { AbandonedTurnRecovery } from './recovery/abandoned-turn.recovery.js';
import { InterruptedTaskTimeout } from './recovery/interrupted-task.timeout.js';
import { SweepTrigger } from './recovery/sweep-trigger.js';
import { EventRetention } from './streams/event-retention.js';
import { Poller } from './streams/poller.js';
import { TaskEventStream } from './streams/task-event-stream.js';
import { TypeOrmTaskEventStream } from './streams/typeorm-task-event-stream.js';
import { MessageReceiptEntity } from './tasks/message-receipt.entity.js';
import { OrderedTaskStore } from './tasks/ordered-task-store.js';
import { scopeResolver } from './tasks/task-scope.js';
import { VersionedTaskStore } from './tasks/task-store.js';
import { TaskEventEntity } from './tasks/task-event.entity.js';
import { TaskEntity } from './tasks/task.entity.js';
import { TypeOrmTaskStore } from './tasks/typeorm-task-store.js';
import { ExecutorInvoker } from './turns/executor-invoker.js';
import { ExecutorProvider } from './turns/executor-provider.js';
import { LeaseWatch } from './turns/lease-watch.js';
import { RunningTurns } from './turns/running-turns.js';
import { TurnAdmission } from './turns/turn-admission.js';
import { TurnConclusion } from './turns/turn-conclusion.js';
import { TurnFenceInterceptor } from './turns/turn-fence.interceptor.js';
import { TurnRunner } from './turns/turn-runner.js';

/** Below this no statement is given up on: a busy machine is not a dead one. */
const MIN_STATEMENT_TIMEOUT_MS = 2_000;

/** A static part of the options, resolved. */
interface StaticParts {
  agentId: string;
  dataSource: string | undefined;
  transports: TransportPaths;
  executor: InjectionToken;
}

/** The dynamic module: what is in `extras` decides its shape, all else is decided when the options are there. */
export function clusterModule(definition: DynamicModule, extras: A2AClusterStaticOptions): DynamicModule {
  const parts = staticParts(extras);
  const stores = [LeaseStore, VersionedTaskStore, TaskEventStream];
  return {
    ...definition,
    global: extras.isGlobal ?? false,
    imports: [...new Set([...(definition.imports ?? []), ...(extras.imports ?? [])])],
    controllers: transportControllers(parts.transports, extras.guards ?? []),
    providers: [
      ...(definition.providers ?? []),
      { provide: STATIC_OPTIONS, useValue: parts },
      ...(typeof extras.executor === 'function' ? [extras.executor as Type<AgentExecutor>] : []),
      ...providers(parts),
      ...(extras.extraProviders ?? []),
    ],
    exports: [...(definition.exports ?? []), ...stores, AbandonedTaskSweeper, A2A_REQUEST_HANDLER],
  };
}

function staticParts({ executor, agentId, dataSource, transports }: A2AClusterStaticOptions): StaticParts {
  if (!executor) {
    throw ClusterOptionsError.rule('executor', executor, 'name the class of the agent executor, or its token');
  }
  if (agentId === '') throw ClusterOptionsError.rule('agentId', agentId, 'it must not be empty');
  return {
    agentId: agentId ?? 'default',
    dataSource: dataSource === 'default' ? undefined : dataSource,
    transports: resolveTransports(transports),
    executor,
  };
}

function providers({ dataSource }: StaticParts): Provider[] {
  return [
    { provide: RESOLVED_OPTIONS, useFactory: resolveOptions, inject: [A2A_CLUSTER_OPTIONS] },
    provide(
      DatabaseAccess,
      ({ leases }: ResolvedOptions, parts: StaticParts, found: DataSource | undefined) =>
        new DatabaseAccess(
          () =>
            new ClusterDatabase(
              requireUsable(found, parts.dataSource),
              Math.max(MIN_STATEMENT_TIMEOUT_MS, leases ? leases.heartbeatIntervalMs : 0),
              leases ? leases.ttlMs / 3 : undefined,
            ),
        ),
      [RESOLVED_OPTIONS, STATIC_OPTIONS, { token: getDataSourceToken(dataSource), optional: true }],
    ),
    ...storeProviders(),
    ...turnProviders(),
    ...recoveryProviders(),
    ...protocolProviders(),
    {
      provide: A2AClusterLifecycle,
      useFactory: (database: DatabaseAccess, parts: StaticParts, ...rest: unknown[]) =>
        new A2AClusterLifecycle({
          database,
          transports: parts.transports,
          ...zip(LIFECYCLE_PARTS, rest),
        }),
      inject: [DatabaseAccess, STATIC_OPTIONS, ...Object.values(LIFECYCLE_PARTS), EventRetention, BODY_PARSER],
    },
  ];
}

const BODY_PARSER = Symbol('A2A_CLUSTER_BODY_PARSER');

/** The task store with the leases about it: what the library itself uses. */
const LEASED_TASKS = Symbol('A2A_CLUSTER_LEASED_TASKS');

const LIFECYCLE_PARTS = {
  executor: ExecutorProvider,
  adapterHost: HttpAdapterHost,
  requestHandler: A2A_REQUEST_HANDLER,
  runner: TurnRunner,
  watch: LeaseWatch,
  responses: OpenResponses,
  stream: TaskEventStream,
  poller: Poller,
  leases: LeaseStore,
  heartbeat: Heartbeat,
  sweep: SweepTrigger,
} satisfies Record<Exclude<keyof LifecycleParts, 'database' | 'transports'>, InjectionToken>;

function zip(names: typeof LIFECYCLE_PARTS, values: unknown[]): Omit<LifecycleParts, 'database' | 'transports'> {
  return Object.fromEntries(Object.keys(names).map((name, at) => [name, values[at]])) as never;
}

function storeProviders(): Provider[] {
  const tables = ({ dataSource }: ClusterDatabase) => ({
    tasks: sqlName(dataSource, TaskEntity),
    events: sqlName(dataSource, TaskEventEntity),
    leases: sqlName(dataSource, LeaseEntity),
    pushConfigs: sqlName(dataSource, PushConfigEntity),
    receipts: sqlName(dataSource, MessageReceiptEntity),
  });
  return [
    provide(
      LeaseStore,
      (database: DatabaseAccess, { agentId }: StaticParts, { leases }: ResolvedOptions) =>
        new TypeOrmLeaseStore(
          database.require(),
          tables(database.require()),
          agentId,
          leases ? leases.heartbeatIntervalMs : MIN_STATEMENT_TIMEOUT_MS,
        ),
      [DatabaseAccess, STATIC_OPTIONS, RESOLVED_OPTIONS],
    ),
    provide(
      VersionedTaskStore,
      (database: DatabaseAccess, { agentId }: StaticParts, { ownerResolver }: ResolvedOptions) =>
        new TypeOrmTaskStore(database.require(), tables(database.require()), agentId, scopeResolver(ownerResolver)),
      [DatabaseAccess, STATIC_OPTIONS, RESOLVED_OPTIONS],
    ),
    provide(LEASED_TASKS, leasedTasks, [VersionedTaskStore, LeaseStore, RESOLVED_OPTIONS]),
    provide(Poller, ({ streams }: ResolvedOptions) => new Poller(streams.pollIntervalMs), [RESOLVED_OPTIONS]),
    provide(
      TaskEventStream,
      (database: DatabaseAccess, tasks: VersionedTaskStore, poller: Poller, { streams }: ResolvedOptions) =>
        new TypeOrmTaskEventStream(database.require(), tasks, poller, {
          notify: streams.notify,
          timeoutMs: Math.max(MIN_STATEMENT_TIMEOUT_MS, streams.pollIntervalMs),
          tasksTable: tables(database.require()).tasks,
        }),
      [DatabaseAccess, VersionedTaskStore, Poller, RESOLVED_OPTIONS],
    ),
    provide(
      EventRetention,
      (tasks: VersionedTaskStore, poller: Poller, { streams, turns }: ResolvedOptions) =>
        new EventRetention(tasks, poller, streams.retentionMs, turns.messageIdWindowMs),
      [VersionedTaskStore, Poller, RESOLVED_OPTIONS],
    ),
    provide(
      Heartbeat,
      (leases: LeaseStore, options: ResolvedOptions) =>
        options.leases ? new Heartbeat(leases, newReplicaId(), options.leases) : null,
      [LeaseStore, RESOLVED_OPTIONS],
    ),
  ];
}

/** Where leases and tasks share transactions the tasks see to both; elsewhere their order does. */
function leasedTasks(tasks: VersionedTaskStore, leases: LeaseStore, options: ResolvedOptions): VersionedTaskStore {
  if (!options.leases || leases.sharesTransactions(tasks)) return tasks;
  if (leases instanceof TypeOrmLeaseStore) {
    throw new ClusterOptionsError(
      'extraProviders',
      `A2AClusterModule's own LeaseStore keeps leases of its own task store only, not of ${tasks.constructor.name}: ` +
        'provide a LeaseStore as well.',
    );
  }
  return new OrderedTaskStore(tasks, leases);
}

function turnProviders(): Provider[] {
  return [
    RunningTurns,
    OpenResponses,
    provide(
      TurnAdmission,
      (
        tasks: VersionedTaskStore,
        stream: TaskEventStream,
        heartbeat: Heartbeat | null,
        { contextCodec, turns }: ResolvedOptions,
      ) => new TurnAdmission(tasks, stream, heartbeat ?? undefined, contextCodec, turns),
      [LEASED_TASKS, TaskEventStream, Heartbeat, RESOLVED_OPTIONS],
    ),
    provide(
      TurnConclusion,
      (stream: TaskEventStream, leases: LeaseStore, { turns }: ResolvedOptions) =>
        new TurnConclusion(stream, leases, turns),
      [TaskEventStream, LeaseStore, RESOLVED_OPTIONS],
    ),
    provide(
      ExecutorProvider,
      (
        modules: ModulesContainer,
        parts: StaticParts,
        { globalEnhancers }: ResolvedOptions,
        config: ApplicationConfig,
      ) => {
        // Several instances of the library's module in one app are told apart by what each was made with.
        const home = [...modules.values()].find((module) => module.providers.get(STATIC_OPTIONS)?.instance === parts);
        return new ExecutorProvider(home!, modules, parts.executor, globalEnhancers ? config : undefined);
      },
      [ModulesContainer, STATIC_OPTIONS, RESOLVED_OPTIONS, ApplicationConfig],
    ),
    provide(
      TurnRunner,
      (
        executor: ExecutorProvider,
        admission: TurnAdmission,
        conclusion: TurnConclusion,
        running: RunningTurns,
        { turns }: ResolvedOptions,
      ) => {
        const invoker = new ExecutorInvoker(executor, new TurnFenceInterceptor(admission, conclusion));
        return new TurnRunner(invoker, running, turns);
      },
      [ExecutorProvider, TurnAdmission, TurnConclusion, RunningTurns, RESOLVED_OPTIONS],
    ),
    provide(
      LeaseWatch,
      (
        running: RunningTurns,
        tasks: VersionedTaskStore,
        leases: LeaseStore,
        heartbeat: Heartbeat | null,
        stream: TaskEventStream,
        poller: Poller,
      ) => new LeaseWatch(running, tasks, leases, heartbeat ?? undefined, stream, poller),
      [RunningTurns, LEASED_TASKS, LeaseStore, Heartbeat, TaskEventStream, Poller],
    ),
  ];
}

function recoveryProviders(): Provider[] {
  return [
    provide(
      AbandonedTurnRecovery,
      (
        tasks: VersionedTaskStore,
        leases: LeaseStore,
        stream: TaskEventStream,
        heartbeat: Heartbeat | null,
        admission: TurnAdmission,
      ) => {
        if (!heartbeat) return null;
        const recovery = new AbandonedTurnRecovery(tasks, leases, stream, heartbeat);
        admission.onAbandoned((scope) => recovery.recoverTask(scope));
        return recovery;
      },
      [LEASED_TASKS, LeaseStore, TaskEventStream, Heartbeat, TurnAdmission],
    ),
    provide(
      AbandonedTaskSweeper,
      (
        leases: LeaseStore,
        recovery: AbandonedTurnRecovery | null,
        heartbeat: Heartbeat | null,
        { sweeper }: ResolvedOptions,
      ) => (recovery && heartbeat && sweeper ? new AbandonedTaskSweeper(leases, recovery, heartbeat, sweeper) : null),
      [LeaseStore, AbandonedTurnRecovery, Heartbeat, RESOLVED_OPTIONS],
    ),
    provide(
      InterruptedTaskTimeout,
      (tasks: VersionedTaskStore, stream: TaskEventStream, { interruptedTaskTimeoutMs }: ResolvedOptions) =>
        interruptedTaskTimeoutMs === undefined
          ? null
          : new InterruptedTaskTimeout(tasks, stream, interruptedTaskTimeoutMs),
      [LEASED_TASKS, TaskEventStream, RESOLVED_OPTIONS],
    ),
    provide(
      SweepTrigger,
      (
        sweeper: AbandonedTaskSweeper | null,
        timeout: InterruptedTaskTimeout | null,
        options: ResolvedOptions,
        registry: SchedulerRegistry | undefined,
      ) => {
        const sweepers = [sweeper, timeout].filter((one) => one !== null);
        if (sweepers.length === 0) return null;
        if (!registry) {
          throw new ClusterOptionsError(
            'sweeper',
            "A2AClusterModule's sweeper needs @nestjs/schedule: import ScheduleModule.forRoot().",
          );
        }
        return new SweepTrigger(sweepers, registry, options.sweeper ? options.sweeper.intervalMs : DEFAULT_SWEEP_MS);
      },
      [AbandonedTaskSweeper, InterruptedTaskTimeout, RESOLVED_OPTIONS, { token: SchedulerRegistry, optional: true }],
    ),
  ];
}

function protocolProviders(): Provider[] {
  return [
    provide(
      AgentCards,
      (options: ResolvedOptions, { transports }: StaticParts, config: ApplicationConfig) => {
        const { agentCard, extendedAgentCard, cardSignature, publicUrl } = options;
        return new AgentCards(agentCard, extendedAgentCard, cardSignature, () => ({
          publicUrl,
          prefix: globalPrefix(config),
          transports,
        }));
      },
      [RESOLVED_OPTIONS, STATIC_OPTIONS, ApplicationConfig],
    ),
    provide(
      TaskCancellation,
      (
        tasks: VersionedTaskStore,
        stream: TaskEventStream,
        admission: TurnAdmission,
        runner: TurnRunner,
        recovery: AbandonedTurnRecovery | null,
        { turns, streams }: ResolvedOptions,
      ) =>
        new TaskCancellation(
          tasks,
          stream,
          admission,
          runner,
          recovery ? (scope) => recovery.recoverTask(scope) : undefined,
          turns.cancelTimeoutMs + streams.pollIntervalMs,
        ),
      [LEASED_TASKS, TaskEventStream, TurnAdmission, TurnRunner, AbandonedTurnRecovery, RESOLVED_OPTIONS],
    ),
    provide(
      A2A_REQUEST_HANDLER,
      (
        cards: AgentCards,
        tasks: VersionedTaskStore,
        stream: TaskEventStream,
        runner: TurnRunner,
        cancellation: TaskCancellation,
        { ownerResolver, validateInputModes, turns, streams }: ResolvedOptions,
      ) =>
        new ClusterRequestHandler(
          ...([
            cards,
            tasks,
            stream,
            runner,
            new TurnAnswers(tasks, stream, streams.pollIntervalMs),
            cancellation,
          ] as const),
          ...([scopeResolver(ownerResolver), validateInputModes, turns.messageIdWindowMs] as const),
        ),
      [AgentCards, LEASED_TASKS, TaskEventStream, TurnRunner, TaskCancellation, RESOLVED_OPTIONS],
    ),
    provide(
      TransportEndpoints,
      (
        handler: ClusterRequestHandler,
        { userBuilder }: ResolvedOptions,
        { transports }: StaticParts,
        running: RunningTurns,
        responses: OpenResponses,
        config: ApplicationConfig,
      ) => new TransportEndpoints(handler, userBuilder, transports, running, responses, config),
      [A2A_REQUEST_HANDLER, RESOLVED_OPTIONS, STATIC_OPTIONS, RunningTurns, OpenResponses, ApplicationConfig],
    ),
    provide(
      BODY_PARSER,
      (host: HttpAdapterHost, { transports }: StaticParts, config: ApplicationConfig) => {
        // As soon as there is an adapter, which is before Nest registers its own parser.
        host.init$.subscribe(() => {
          if (host.httpAdapter.getType() !== 'express') return;
          host.httpAdapter.use(a2aBodyParser(transports, () => globalPrefix(config)));
        });
        return transports;
      },
      [HttpAdapterHost, STATIC_OPTIONS, ApplicationConfig],
    ),
  ];
}

/** A factory provider whose parameters are what it injects, in the same order. */
function provide(
  token: InjectionToken,
  useFactory: (...args: never[]) => unknown,
  inject: FactoryProvider['inject'],
): Provider {
  return { provide: token, useFactory: useFactory as FactoryProvider['useFactory'], inject: inject ?? [] };
}
