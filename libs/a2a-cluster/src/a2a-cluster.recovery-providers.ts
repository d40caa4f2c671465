import type { Provider } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { RESOLVED_OPTIONS } from './a2a-cluster.constants.js';
import { DEFAULT_SWEEP_MS, type ResolvedOptions } from './a2a-cluster.options.js';
import { ClusterOptionsError } from './errors/cluster-options.error.js';
import { Heartbeat } from './leases/heartbeat.js';
import { LeaseStore } from './leases/lease-store.js';
import { AbandonedTaskSweeper } from './recovery/abandoned-task.sweeper.js';
import { AbandonedTurnRecovery } from './recovery/abandoned-turn.recovery.js';
import { InterruptedTaskTimeout } from './recovery/interrupted-task.timeout.js';
import { SweepTrigger } from './recovery/sweep-trigger.js';
import { TaskEventStream } from './streams/task-event-stream.js';
import { VersionedTaskStore } from './tasks/task-store.js';
import { TurnAdmission } from './turns/turn-admission.js';
import { provide, LEASED_TASKS } from './a2a-cluster.provide.js';

/** What ends the turns of replicas that died; nothing where leases are off. */
export function recoveryProviders(): Provider[] {
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
