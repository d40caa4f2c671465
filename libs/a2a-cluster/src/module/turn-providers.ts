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
import { ExecutorInvoker } from '../turns/executor/executor-invoker.js';
import { ExecutorProvider } from '../turns/executor/executor-provider.js';
import { LeaseWatch } from '../turns/lease-watch.js';
import { RunningTurns } from '../turns/running-turns.js';
import { TurnAdmission } from '../turns/turn-admission.js';
import { TurnConclusion } from '../turns/turn-conclusion.js';
import { TurnFenceInterceptor } from '../turns/executor/turn-fence.interceptor.js';
import { TurnRunner } from '../turns/turn-runner.js';
import { provide, LEASED_EFFECTS, LEASED_TASKS } from './provide.js';

/** What admits, runs and ends turns. */
export function turnProviders(): Provider[] {
  return [
    RunningTurns,
    provide(OpenResponses, ({ streams }: ResolvedOptions) => new OpenResponses(streams.keepAliveMs), [ResolvedOptions]),
    provide(
      TurnAdmission,
      (
        tasks: VersionedTaskStore,
        stream: TaskEventStream,
        heartbeat: Heartbeat | null,
        { contextCodec }: ResolvedOptions,
      ) => new TurnAdmission(tasks, stream, heartbeat ?? undefined, contextCodec),
      [LEASED_TASKS, TaskEventStream, Heartbeat, ResolvedOptions],
    ),
    provide(
      TurnConclusion,
      (stream: TaskEventStream, leases: LeaseStore, effects: EffectStore, { turns, sweeper }: ResolvedOptions) =>
        new TurnConclusion(stream, leases, effects, turns, sweeper !== false && sweeper.policy !== 'fail'),
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
      TurnRunner,
      (
        executor: ExecutorProvider,
        admission: TurnAdmission,
        conclusion: TurnConclusion,
        running: RunningTurns,
        leases: LeaseStore,
        effects: EffectStore,
        transactions: TurnTransactions | null,
        { turns, leases: times }: ResolvedOptions,
      ) => {
        const invoker = new ExecutorInvoker(executor, new TurnFenceInterceptor(admission, conclusion));
        return new TurnRunner(invoker, running, turns, {
          effects,
          transactions: transactions ?? undefined,
          retryMs: times ? times.ttlMs : RETRIED_WITHOUT_LEASES_MS,
          handOver: (generation) => leases.handOver(generation, 0),
        });
      },
      [
        ...[ExecutorProvider, TurnAdmission, TurnConclusion, RunningTurns],
        ...[LeaseStore, LEASED_EFFECTS, TurnTransactions, ResolvedOptions],
      ],
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
