import type { Provider } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { A2A_REQUEST_HANDLER } from './tokens.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { StaticOptions } from '../options/static.options.js';
import { grpcProviders, grpcTarget } from './grpc-providers.js';
import { AgentCards } from '../protocol/agent-cards.js';
import { a2aBodyParser } from '../transports/http/body-parser.js';
import { ClusterRequestHandler } from '../protocol/cluster.request-handler.js';
import { A2AGrpcServer } from '../transports/grpc/a2a-grpc.server.js';
import { LargeAnswers } from '../protocol/large-answers.js';
import { legacyBindings } from '../protocol/legacy-bindings.js';
import { OpenResponses } from '../transports/flow/open-responses.js';
import { PushReceivers } from '../protocol/push-receivers.js';
import { TaskCancellation } from '../protocol/task-cancellation.js';
import { globalPrefix, prefixOf, TransportEndpoints } from '../transports/http/transport-endpoints.js';
import { userFromRequest } from '../transports/http/user-builder.js';
import { TurnAnswers } from '../protocol/turn-answers.js';
import { UnsentBytes } from '../transports/flow/unsent-bytes.js';
import { PushClient } from '../push/push-client.js';
import { PushConfigStore } from '../push/push-config-store.js';
import { PushDispatcher } from '../push/push-dispatcher.js';
import { PushTargetGuard } from '../push/push-target.guard.js';
import { AbandonedTurnRecovery } from '../recovery/abandoned-turn.recovery.js';
import { Poller } from '../streams/poller.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { scopeResolver } from '../tasks/task-scope.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { RunningTurns } from '../turns/running-turns.js';
import { TurnAdmission } from '../turns/turn-admission.js';
import { TurnRunner } from '../turns/turn-runner.js';
import { provide, LEASED_TASKS, BODY_PARSER } from './provide.js';

/** The request handler and the way to it. */
export function protocolProviders(): Provider[] {
  return [
    provide(
      AgentCards,
      (
        options: ResolvedOptions,
        { transports }: StaticOptions,
        config: ApplicationConfig,
        server: A2AGrpcServer | null,
      ) => {
        const { agentCard, extendedAgentCard, cardSignature, publicUrl } = options;
        return new AgentCards(agentCard, extendedAgentCard, cardSignature, () => ({
          publicUrl,
          prefixOf: (path) => prefixOf(config, path),
          transports,
          grpc: grpcTarget(options, server?.port),
          legacyBindings: legacyBindings(options.legacyCompat),
        }));
      },
      [ResolvedOptions, StaticOptions, ApplicationConfig, A2AGrpcServer],
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
      [LEASED_TASKS, TaskEventStream, TurnAdmission, TurnRunner, AbandonedTurnRecovery, ResolvedOptions],
    ),
    provide(PushTargetGuard, ({ push }: ResolvedOptions) => new PushTargetGuard(push.allow), [ResolvedOptions]),
    provide(
      PushDispatcher,
      (
        configs: PushConfigStore,
        tasks: VersionedTaskStore,
        guard: PushTargetGuard,
        stream: TaskEventStream,
        poller: Poller,
        { push }: ResolvedOptions,
      ) => new PushDispatcher(configs, tasks, new PushClient(guard, push.timeoutMs), push, stream, poller),
      [PushConfigStore, VersionedTaskStore, PushTargetGuard, TaskEventStream, Poller, ResolvedOptions],
    ),
    provide(
      PushReceivers,
      (cards: AgentCards, configs: PushConfigStore, dispatcher: PushDispatcher, guard: PushTargetGuard) =>
        new PushReceivers(cards, configs, dispatcher, guard),
      [AgentCards, PushConfigStore, PushDispatcher, PushTargetGuard],
    ),
    provide(
      UnsentBytes,
      ({ streams }: ResolvedOptions) => new UnsentBytes(streams.maxUnsentBytes, streams.stallTimeoutMs),
      [ResolvedOptions],
    ),
    provide(LargeAnswers, (unsent: UnsentBytes, tasks: VersionedTaskStore) => new LargeAnswers(unsent, tasks), [
      UnsentBytes,
      LEASED_TASKS,
    ]),
    provide(
      A2A_REQUEST_HANDLER,
      (
        cards: AgentCards,
        tasks: VersionedTaskStore,
        stream: TaskEventStream,
        runner: TurnRunner,
        cancellation: TaskCancellation,
        push: PushReceivers,
        large: LargeAnswers,
        { ownerResolver, validateInputModes, turns, streams, requests }: ResolvedOptions,
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
          ...([
            scopeResolver(ownerResolver),
            validateInputModes,
            turns.messageIdWindowMs,
            push,
            requests,
            large,
          ] as const),
        ),
      [
        AgentCards,
        LEASED_TASKS,
        TaskEventStream,
        TurnRunner,
        TaskCancellation,
        PushReceivers,
        LargeAnswers,
        ResolvedOptions,
      ],
    ),
    provide(
      TransportEndpoints,
      (
        handler: ClusterRequestHandler,
        { userBuilder, legacyCompat }: ResolvedOptions,
        { transports }: StaticOptions,
        running: RunningTurns,
        responses: OpenResponses,
        config: ApplicationConfig,
        unsent: UnsentBytes,
      ) =>
        new TransportEndpoints(
          handler,
          userBuilder ?? userFromRequest,
          transports,
          running,
          responses,
          config,
          legacyCompat,
          unsent,
        ),
      [
        A2A_REQUEST_HANDLER,
        ResolvedOptions,
        StaticOptions,
        RunningTurns,
        OpenResponses,
        ApplicationConfig,
        UnsentBytes,
      ],
    ),
    ...grpcProviders(),
    provide(
      BODY_PARSER,
      (
        host: HttpAdapterHost,
        { transports }: StaticOptions,
        config: ApplicationConfig,
        { legacyCompat, requests }: ResolvedOptions,
      ) => {
        // As soon as there is an adapter, which is before Nest registers its own parser.
        host.init$.subscribe(() => {
          if (host.httpAdapter?.getType?.() !== 'express') return; // an application context has none
          host.httpAdapter.use(
            a2aBodyParser(transports, () => globalPrefix(config), legacyCompat.rest, requests.maxValues),
          );
        });
        return transports;
      },
      [HttpAdapterHost, StaticOptions, ApplicationConfig, ResolvedOptions],
    ),
  ];
}
