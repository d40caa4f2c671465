import type { Provider } from '@nestjs/common';
import { EffectStore } from '../effects/effect-store.js';
import { LeaseStore } from '../leases/lease-store.js';
import { PushConfigStore } from '../push/push-config-store.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { InMemoryEffectStore } from './in-memory-effect.store.js';
import { InMemoryLeaseStore } from './in-memory-lease.store.js';
import { InMemoryTaskEventStream } from './in-memory-task-event.stream.js';
import { InMemoryTaskStore } from './in-memory-task.store.js';

export { InMemoryEffectStore } from './in-memory-effect.store.js';
export { InMemoryLeaseStore } from './in-memory-lease.store.js';
export { InMemoryPushConfigStore } from './in-memory-push-config.store.js';
export { InMemoryTaskEventStream } from './in-memory-task-event.stream.js';
export { InMemoryTaskStore } from './in-memory-task.store.js';

/**
 * `extraProviders` of an app that needs no database: tasks, leases, effects, push
 * receivers and streams in memory. Give two apps of one
 * test the same stores, and they are two replicas. An effect store that is left out is added to what is given, so that
 * they share that too.
 */
export function inMemoryStores(
  stores: { tasks: InMemoryTaskStore; leases: InMemoryLeaseStore; effects?: InMemoryEffectStore } = {
    tasks: new InMemoryTaskStore(),
    leases: new InMemoryLeaseStore(),
  },
): Provider[] {
  stores.effects ??= new InMemoryEffectStore();
  return [
    { provide: VersionedTaskStore, useValue: stores.tasks },
    { provide: LeaseStore, useValue: stores.leases },
    { provide: PushConfigStore, useValue: stores.tasks.pushConfigs },
    { provide: EffectStore, useValue: stores.effects },
    { provide: TaskEventStream, useFactory: () => new InMemoryTaskEventStream(stores.tasks) },
  ];
}
