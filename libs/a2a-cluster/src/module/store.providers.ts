import type { FactoryProvider } from '@nestjs/common';
import { EffectStore } from '../effects/effect-store.js';
import { LeasedEffectStore } from '../effects/leased-effect-store.js';
import { NoEffectStore } from '../effects/no-effect-store.js';
import { NoTransactions } from '../effects/no-transactions.js';
import { OrderedEffectStore } from '../effects/ordered-effect-store.js';
import { TurnTransactions } from '../effects/turn-transactions.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { LeaseStore } from '../leases/lease-store.js';
import { SeparateLeaseStore } from '../leases/separate-lease-store.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { StaticOptions } from '../options/static.options.js';
import { FencedTransactions } from '../postgres/effects/fenced-transactions.js';
import { TypeOrmEffectStore } from '../postgres/effects/typeorm-effect-store.js';
import { TypeOrmLeaseStore } from '../postgres/leases/typeorm-lease-store.js';
import { TypeOrmPushConfigStore } from '../postgres/push/typeorm-push-config-store.js';
import { tablesOf } from '../postgres/schema/table-names.js';
import { TypeOrmTaskStore } from '../postgres/tasks/typeorm-task-store.js';
import { NoPushConfigStore } from '../push/no-push-config-store.js';
import { PushConfigStore } from '../push/push-config-store.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import { OrderedTaskStore } from '../tasks/ordered-task-store.js';
import { VersionedTaskStore } from '../tasks/task-store.js';

/**
 * The stores that follow from others: `extraProviders` may replace any of the five ports, and what is not replaced has to
 * fit what is.
 */
export const STORE_PROVIDERS: FactoryProvider[] = [
  { provide: EffectStore, useFactory: effectStore, inject: [VersionedTaskStore, LeaseStore] },
  { provide: PushConfigStore, useFactory: pushConfigStore, inject: [VersionedTaskStore, StaticOptions] },
  { provide: TurnTransactions, useFactory: transactions, inject: [VersionedTaskStore, LeaseStore, ResolvedOptions] },
  { provide: LeasedTaskStore, useFactory: leasedTasks, inject: [VersionedTaskStore, LeaseStore, ResolvedOptions] },
  { provide: LeasedEffectStore, useFactory: leasedEffects, inject: [EffectStore, LeaseStore, ResolvedOptions] },
];

function effectStore(tasks: VersionedTaskStore, leases: LeaseStore): EffectStore {
  if (!(tasks instanceof TypeOrmTaskStore)) return new NoEffectStore();
  const { database } = tasks;
  return new TypeOrmEffectStore(database, tablesOf(database.dataSource), !(leases instanceof SeparateLeaseStore));
}

function pushConfigStore(tasks: VersionedTaskStore, { agentId }: StaticOptions): PushConfigStore {
  if (!(tasks instanceof TypeOrmTaskStore)) return new NoPushConfigStore();
  const { database } = tasks;
  return new TypeOrmPushConfigStore(database, tablesOf(database.dataSource), agentId);
}

function transactions(tasks: VersionedTaskStore, leases: LeaseStore, options: ResolvedOptions): TurnTransactions {
  const fenced = !options.leases || !(leases instanceof SeparateLeaseStore);
  if (!fenced || !(tasks instanceof TypeOrmTaskStore)) return new NoTransactions();
  const { database } = tasks;
  return new FencedTransactions(database, tablesOf(database.dataSource));
}

/** Tasks and leases that are kept in one place share transactions. Elsewhere order takes their place. */
function leasedTasks(tasks: VersionedTaskStore, leases: LeaseStore, options: ResolvedOptions): LeasedTaskStore {
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

function leasedEffects(effects: EffectStore, leases: LeaseStore, options: ResolvedOptions): LeasedEffectStore {
  return !options.leases || checksLeases(effects, leases) ? effects : new OrderedEffectStore(effects, leases);
}

/** Whether the ledger sees the leases in its own transactions. One that was replaced does not see the library's own. */
const checksLeases = (effects: EffectStore, leases: LeaseStore): boolean =>
  !(leases instanceof SeparateLeaseStore) &&
  (effects instanceof TypeOrmEffectStore || !(leases instanceof TypeOrmLeaseStore));
