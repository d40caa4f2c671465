import type { Provider } from '@nestjs/common';
import { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { ResolvedOptions } from '../options/cluster.options.js';
import { RETRIED_WITHOUT_LEASES_MS } from '../options/lease.options.js';
import { StaticOptions } from '../options/static.options.js';
import type { EffectStore } from '../effects/effect-store.js';
import { TurnTransactions } from '../effects/turn-transactions.js';
import { Heartbeat } from '../leases/heartbeat.js';
import { LeaseStore } from '../leases/lease-store.js';
import { OpenResponses } from '../transports/flow/open-responses.js';
import { Poller } from '../streams/poller.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { AbandonedRecovery } from '../turns/abandoned-recovery.js';
import { CancelTurns } from '../turns/cancel-turns.js';
import { ExecutorInvoker } from '../turns/executor/executor-invoker.js';
import { ExecutorProvider } from '../turns/executor/executor-provider.js';
import { LeaseWatch } from '../turns/lease-watch.js';
import { MessageTurns } from '../turns/message-turns.js';
import { RunningTurns } from '../turns/running-turns.js';
import { TurnAdmission } from '../turns/turn-admission.js';
import { TurnConclusion } from '../turns/turn-conclusion.js';
import { TurnDrain } from '../turns/turn-drain.js';
import { TurnFactory } from '../turns/turn-factory.js';
import { TurnFenceInterceptor } from '../turns/executor/turn-fence.interceptor.js';
import { TurnRunner } from '../turns/turn-runner.js';
import { provide, LEASED_EFFECTS, LEASED_TASKS } from './provide.js';

/** What admits, runs and ends turns. */
export function turnProviders(): Provider[] {
  return [
    RunningTurns,
    provide(OpenResponses, ({ streams }: ResolvedOptions) => new OpenResponses(streams.keepAliveMs), [ResolvedOptions]),
    provide(
      TurnFactory,
      (
        tasks: VersionedTaskStore,
        stream: TaskEventStream,
        heartbeat: Heartbeat | null,
        effects: EffectStore,
        transactions: TurnTransactions | null,
        { contextCodec, leases: times, turns }: ResolvedOptions,
      ) =>
        new TurnFactory(tasks, stream, heartbeat ?? undefined, effects, transactions ?? undefined, {
          contextCodec,
          retryMs: times ? times.ttlMs : RETRIED_WITHOUT_LEASES_MS,
          cancelTimeoutMs: turns.cancelTimeoutMs,
        }),
      [LEASED_TASKS, TaskEventStream, Heartbeat, LEASED_EFFECTS, TurnTransactions, ResolvedOptions],
    ),
    provide(
      TurnAdmission,
      (tasks: VersionedTaskStore, heartbeat: Heartbeat | null, recovery: AbandonedRecovery) =>
        new TurnAdmission(tasks, heartbeat ?? undefined, recovery),
      [LEASED_TASKS, Heartbeat, AbandonedRecovery],
    ),
    provide(
      TurnConclusion,
      (stream: TaskEventStream, leases: LeaseStore, effects: EffectStore, { turns, sweeper }: ResolvedOptions) =>
        new TurnConclusion(stream, leases, effects, {
          ...turns,
          handsOver: sweeper !== false && sweeper.policy !== 'fail',
        }),
      [TaskEventStream, LeaseStore, LEASED_EFFECTS, ResolvedOptions],
    ),
    provide(
      ExecutorProvider,
      (
        modules: ModulesContainer,
        parts: StaticOptions,
        { globalEnhancers }: ResolvedOptions,
        config: ApplicationConfig,
      ) => {
        // Several instances of the library's module in one app are told apart by what each was made with.
        const home = [...modules.values()].find((module) => module.providers.get(StaticOptions)?.instance === parts);
        return new ExecutorProvider(home!, modules, parts.executor, globalEnhancers ? config : undefined);
      },
      [ModulesContainer, StaticOptions, ResolvedOptions, ApplicationConfig],
    ),
    provide(
      ExecutorInvoker,
      (executor: ExecutorProvider) => new ExecutorInvoker(executor, new TurnFenceInterceptor()),
      [ExecutorProvider],
    ),
    provide(
      TurnRunner,
      (invoker: ExecutorInvoker, conclusion: TurnConclusion, running: RunningTurns, { turns }: ResolvedOptions) =>
        new TurnRunner(invoker, conclusion, running, turns),
      [ExecutorInvoker, TurnConclusion, RunningTurns, ResolvedOptions],
    ),
    provide(
      MessageTurns,
      (turns: TurnFactory, admission: TurnAdmission, runner: TurnRunner, running: RunningTurns) =>
        new MessageTurns(turns, admission, runner, running),
      [TurnFactory, TurnAdmission, TurnRunner, RunningTurns],
    ),
    provide(
      CancelTurns,
      (
        turns: TurnFactory,
        invoker: ExecutorInvoker,
        runner: TurnRunner,
        running: RunningTurns,
        options: ResolvedOptions,
      ) => new CancelTurns(turns, invoker, runner, running, options.turns),
      [TurnFactory, ExecutorInvoker, TurnRunner, RunningTurns, ResolvedOptions],
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
    provide(
      TurnDrain,
      (running: RunningTurns, watch: LeaseWatch, leases: LeaseStore, { turns }: ResolvedOptions) =>
        new TurnDrain(running, watch, leases, turns),
      [RunningTurns, LeaseWatch, LeaseStore, ResolvedOptions],
    ),
  ];
}
