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
import { AbandonedLeases } from '../recovery/abandoned-leases.js';
import { AbandonedTurnRecovery } from '../recovery/abandoned-turn.recovery.js';
import { InterruptedTaskTimeout } from '../recovery/interrupted-task.timeout.js';
import { ReExecution } from '../recovery/re-execution.js';
import { SweepTrigger } from '../recovery/sweep-trigger.js';
import { UnleasedTasksLook } from '../recovery/unleased-tasks.look.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { scopeResolver } from '../tasks/task-scope.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { AbandonedRecovery, NoRecovery } from '../turns/abandoned-recovery.js';
import { RunningTurns } from '../turns/running-turns.js';
import { TurnFactory } from '../turns/turn-factory.js';
import { TurnRunner } from '../turns/turn-runner.js';
import { LEASED_EFFECTS, LEASED_TASKS, provide } from './provide.js';

/** What ends the turns of replicas that died; nothing where leases are off. */
export function recoveryProviders(): Provider[] {
  return [
    provide(
      AbandonedLeases,
      (leases: LeaseStore, heartbeat: Heartbeat | null, running: RunningTurns, { sweeper }: ResolvedOptions) =>
        heartbeat && sweeper ? new AbandonedLeases(leases, heartbeat, running, sweeper) : null,
      [LeaseStore, Heartbeat, RunningTurns, ResolvedOptions],
    ),
    provide(
      ReExecution,
      (
        turns: TurnFactory,
        runner: TurnRunner,
        running: RunningTurns,
        tasks: VersionedTaskStore,
        leases: LeaseStore,
        { contextCodec, ownerResolver, requests }: ResolvedOptions,
      ) =>
        new ReExecution(turns, runner, running, tasks, leases, {
          ...requests,
          contextCodec,
          scopeOf: scopeResolver(ownerResolver),
        }),
      [TurnFactory, TurnRunner, RunningTurns, LEASED_TASKS, LeaseStore, ResolvedOptions],
    ),
    provide(
      AbandonedTurnRecovery,
      (
        abandoned: AbandonedLeases | null,
        reExecution: ReExecution,
        tasks: VersionedTaskStore,
        effects: EffectStore,
        stream: TaskEventStream,
        { sweeper }: ResolvedOptions,
        { agentId }: StaticOptions,
      ) =>
        abandoned && sweeper
          ? new AbandonedTurnRecovery(abandoned, reExecution, tasks, effects, stream, { ...sweeper, agentId })
          : null,
      [AbandonedLeases, ReExecution, LEASED_TASKS, LEASED_EFFECTS, TaskEventStream, ResolvedOptions, StaticOptions],
    ),
    provide(AbandonedRecovery, (recovery: AbandonedTurnRecovery | null) => recovery ?? new NoRecovery(), [
      AbandonedTurnRecovery,
    ]),
    provide(
      AbandonedTaskSweeper,
      (abandoned: AbandonedLeases | null, recovery: AbandonedTurnRecovery | null, { sweeper }: ResolvedOptions) =>
        abandoned && recovery && sweeper ? new AbandonedTaskSweeper(abandoned, recovery, sweeper) : null,
      [AbandonedLeases, AbandonedTurnRecovery, ResolvedOptions],
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
