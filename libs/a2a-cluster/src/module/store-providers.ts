import type { Provider } from '@nestjs/common';
import { ResolvedOptions } from '../options/cluster.options.js';
import { StaticOptions } from '../options/static.options.js';
import { ClusterDatabase } from '../postgres/connection/cluster-database.js';
import { DatabaseAccess } from '../postgres/connection/database-access.js';
import { newReplicaId } from '../leases/replica-id.js';
import { tablesOf } from '../postgres/schema/table-names.js';
import { EffectStore } from '../effects/effect-store.js';
import { TurnTransactions } from '../effects/turn-transactions.js';
import { FencedTransactions } from '../postgres/effects/fenced-transactions.js';
import { NoEffectStore } from '../effects/no-effect-store.js';
import { OrderedEffectStore } from '../effects/ordered-effect-store.js';
import { TypeOrmEffectStore } from '../postgres/effects/typeorm-effect-store.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { Heartbeat } from '../leases/heartbeat.js';
import { LeaseStore } from '../leases/lease-store.js';
import { SeparateLeaseStore } from '../leases/separate-lease-store.js';
import { TypeOrmLeaseStore } from '../postgres/leases/typeorm-lease-store.js';
import { NoPushConfigStore } from '../push/no-push-config-store.js';
import { PushConfigStore } from '../push/push-config-store.js';
import { TypeOrmPushConfigStore } from '../postgres/push/typeorm-push-config-store.js';
import { Retention } from '../retention/retention.js';
import { Poller } from '../streams/poller.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { TypeOrmTaskEventStream } from '../postgres/streams/typeorm-task-event-stream.js';
import { OrderedTaskStore } from '../tasks/ordered-task-store.js';
import { scopeResolver } from '../tasks/task-scope.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { TypeOrmTaskStore } from '../postgres/tasks/typeorm-task-store.js';
import { provide, LEASED_EFFECTS, LEASED_TASKS, MIN_STATEMENT_TIMEOUT_MS } from './provide.js';

/** For how long the row of a replica is kept that has left no lease: a day to look at it. */
const REPLICAS_KEPT_MS = 24 * 3_600_000;

/** Leases, tasks, streams and what keeps them: the database's, unless `extraProviders` replace them. */
export function storeProviders(): Provider[] {
  const tables = ({ dataSource }: ClusterDatabase) => tablesOf(dataSource);
  return [
    provide(
      LeaseStore,
      (database: DatabaseAccess, { agentId }: StaticOptions) =>
        new TypeOrmLeaseStore(database.require(), tables(database.require()), agentId),
      [DatabaseAccess, StaticOptions],
    ),
    provide(
      VersionedTaskStore,
      (database: DatabaseAccess, { agentId }: StaticOptions, { ownerResolver }: ResolvedOptions) =>
        new TypeOrmTaskStore(database.require(), tables(database.require()), agentId, scopeResolver(ownerResolver)),
      [DatabaseAccess, StaticOptions, ResolvedOptions],
    ),
    provide(LEASED_TASKS, leasedTasks, [VersionedTaskStore, LeaseStore, ResolvedOptions]),
    provide(
      PushConfigStore,
      (tasks: VersionedTaskStore, { agentId }: StaticOptions) =>
        tasks instanceof TypeOrmTaskStore
          ? new TypeOrmPushConfigStore(tasks.database, tables(tasks.database), agentId)
          : new NoPushConfigStore(),
      [VersionedTaskStore, StaticOptions],
    ),
    provide(
      EffectStore,
      (tasks: VersionedTaskStore, leases: LeaseStore) =>
        tasks instanceof TypeOrmTaskStore
          ? new TypeOrmEffectStore(tasks.database, tables(tasks.database), !(leases instanceof SeparateLeaseStore))
          : new NoEffectStore(),
      [VersionedTaskStore, LeaseStore],
    ),
    provide(
      LEASED_EFFECTS,
      (effects: EffectStore, leases: LeaseStore, options: ResolvedOptions) =>
        !options.leases || checksLeases(effects, leases) ? effects : new OrderedEffectStore(effects, leases),
      [EffectStore, LeaseStore, ResolvedOptions],
    ),
    provide(
      TurnTransactions,
      (tasks: VersionedTaskStore, leases: LeaseStore, options: ResolvedOptions) => {
        const fenced = !options.leases || !(leases instanceof SeparateLeaseStore);
        return fenced && tasks instanceof TypeOrmTaskStore
          ? new FencedTransactions(tasks.database, tables(tasks.database))
          : null;
      },
      [VersionedTaskStore, LeaseStore, ResolvedOptions],
    ),
    provide(Poller, ({ streams }: ResolvedOptions) => new Poller(streams.pollIntervalMs), [ResolvedOptions]),
    provide(
      TaskEventStream,
      (database: DatabaseAccess, tasks: VersionedTaskStore, poller: Poller, { streams }: ResolvedOptions) =>
        new TypeOrmTaskEventStream(database.require(), tasks, poller, {
          notify: streams.notify,
          timeoutMs: Math.max(MIN_STATEMENT_TIMEOUT_MS, streams.pollIntervalMs),
          tasksTable: tables(database.require()).tasks,
        }),
      [DatabaseAccess, VersionedTaskStore, Poller, ResolvedOptions],
    ),
    provide(
      Retention,
      (
        tasks: VersionedTaskStore,
        effects: EffectStore,
        leases: LeaseStore,
        poller: Poller,
        { streams, turns, retention }: ResolvedOptions,
      ) =>
        new Retention(tasks, effects, leases, poller, {
          ...retention,
          eventsMs: streams.retentionMs,
          receiptsMs: turns.messageIdWindowMs,
          replicasMs: REPLICAS_KEPT_MS,
        }),
      [VersionedTaskStore, EffectStore, LeaseStore, Poller, ResolvedOptions],
    ),
    provide(
      Heartbeat,
      (leases: LeaseStore, options: ResolvedOptions) =>
        options.leases ? new Heartbeat(leases, newReplicaId(), options.leases) : null,
      [LeaseStore, ResolvedOptions],
    ),
  ];
}

/** Tasks and leases that are kept in one place share transactions. Elsewhere order takes their place. */
function leasedTasks(tasks: VersionedTaskStore, leases: LeaseStore, options: ResolvedOptions): VersionedTaskStore {
  if (!options.leases) return tasks;
  if (leases instanceof SeparateLeaseStore) return new OrderedTaskStore(tasks, leases);
  if ('acquire' in leases) {
    throw new ClusterOptionsError(
      'extraProviders',
      `${leases.constructor.name} has a method acquire, so it keeps leases apart from the tasks: let it extend SeparateLeaseStore.`,
    );
  }
  if (!(leases instanceof TypeOrmLeaseStore) || tasks instanceof TypeOrmTaskStore) return tasks;
  throw new ClusterOptionsError(
    'extraProviders',
    `A2AClusterModule's own LeaseStore keeps leases of its own task store only, not of ${tasks.constructor.name}: ` +
      'provide a LeaseStore as well.',
  );
}

/** Whether the ledger sees the leases in its own transactions. One that was replaced does not see the library's own. */
const checksLeases = (effects: EffectStore, leases: LeaseStore): boolean =>
  !(leases instanceof SeparateLeaseStore) &&
  (effects instanceof TypeOrmEffectStore || !(leases instanceof TypeOrmLeaseStore));
