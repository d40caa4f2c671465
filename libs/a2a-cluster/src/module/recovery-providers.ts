import type { Provider } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { ResolvedOptions } from '../options/cluster.options.js';
import { StaticOptions } from '../options/static.options.js';
import { DEFAULT_SWEEP_MS } from '../options/sweeper.options.js';
import type { EffectStore } from '../effects/effect-store.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { Heartbeat } from '../leases/heartbeat.js';
import { LeaseStore } from '../leases/lease-store.js';
import { AbandonedTaskSweeper } from '../recovery/abandoned-task.sweeper.js';
import { AbandonedTurnRecovery } from '../recovery/abandoned-turn.recovery.js';
import { InterruptedTaskTimeout } from '../recovery/interrupted-task.timeout.js';
import { ReExecution } from '../recovery/re-execution.js';
import { SweepTrigger } from '../recovery/sweep-trigger.js';
import { UnleasedTasksLook } from '../recovery/unleased-tasks.look.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { scopeResolver } from '../tasks/task-scope.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { TurnAdmission } from '../turns/turn-admission.js';
import { TurnRunner } from '../turns/turn-runner.js';
import { LEASED_EFFECTS, LEASED_TASKS, provide } from './provide.js';

/** What ends the turns of replicas that died; nothing where leases are off. */
export function recoveryProviders(): Provider[] {
  return [
    provide(
      AbandonedTurnRecovery,
      (
        tasks: VersionedTaskStore,
        leases: LeaseStore,
        effects: EffectStore,
        stream: TaskEventStream,
        heartbeat: Heartbeat | null,
        admission: TurnAdmission,
        runner: TurnRunner,
        { sweeper, contextCodec, ownerResolver, requests }: ResolvedOptions,
        { agentId }: StaticOptions,
      ) => {
        if (!heartbeat || !sweeper) return null;
        const scopeOf = scopeResolver(ownerResolver);
        const reExecution = new ReExecution(runner, tasks, leases, contextCodec, scopeOf, requests);
        const recovery = new AbandonedTurnRecovery(
          ...([tasks, leases, effects, stream, heartbeat, reExecution, sweeper, agentId] as const),
        );
        admission.onAbandoned((scope) => recovery.recoverTask(scope));
        return recovery;
      },
      [
        ...[LEASED_TASKS, LeaseStore, LEASED_EFFECTS, TaskEventStream, Heartbeat],
        ...[TurnAdmission, TurnRunner, ResolvedOptions, StaticOptions],
      ],
    ),
    provide(
      AbandonedTaskSweeper,
      (recovery: AbandonedTurnRecovery | null, { sweeper }: ResolvedOptions) =>
        recovery && sweeper ? new AbandonedTaskSweeper(recovery, sweeper) : null,
      [AbandonedTurnRecovery, ResolvedOptions],
    ),
    provide(
      InterruptedTaskTimeout,
      (tasks: VersionedTaskStore, stream: TaskEventStream, { interruptedTaskTimeoutMs }: ResolvedOptions) =>
        interruptedTaskTimeoutMs === undefined
          ? null
          : new InterruptedTaskTimeout(tasks, stream, interruptedTaskTimeoutMs),
      [LEASED_TASKS, TaskEventStream, ResolvedOptions],
    ),
    provide(
      UnleasedTasksLook,
      (tasks: VersionedTaskStore, { agentId }: StaticOptions, { leases }: ResolvedOptions) =>
        leases ? new UnleasedTasksLook(tasks, agentId, leases.ttlMs) : null,
      [LEASED_TASKS, StaticOptions, ResolvedOptions],
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
      [AbandonedTaskSweeper, InterruptedTaskTimeout, ResolvedOptions, { token: SchedulerRegistry, optional: true }],
    ),
  ];
}
