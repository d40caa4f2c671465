import type { Provider } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { A2A_REQUEST_HANDLER } from './tokens.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { StaticOptions } from '../options/static.options.js';
import { grpcProviders, grpcTarget } from './grpc-providers.js';
import { AgentCards } from '../protocol/agent-cards.js';
import { a2aBodyParser } from '../transports/http/body-parser.js';
import { CallersTasks } from '../protocol/callers-tasks.js';
import { ClusterRequestHandler } from '../protocol/cluster.request-handler.js';
import { A2AGrpcServer } from '../transports/grpc/a2a-grpc.server.js';
import { IncomingMessages } from '../protocol/incoming-messages.js';
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
import { Poller } from '../streams/poller.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { scopeResolver } from '../tasks/task-scope.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { AbandonedRecovery } from '../turns/abandoned-recovery.js';
import { CancelTurns } from '../turns/cancel-turns.js';
import { MessageTurns } from '../turns/message-turns.js';
import { RunningTurns } from '../turns/running-turns.js';
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
        cancelTurns: CancelTurns,
        recovery: AbandonedRecovery,
        { turns, streams }: ResolvedOptions,
      ) =>
        new TaskCancellation(tasks, stream, cancelTurns, recovery, {
          cancelTimeoutMs: turns.cancelTimeoutMs,
          pollIntervalMs: streams.pollIntervalMs,
        }),
      [LEASED_TASKS, TaskEventStream, CancelTurns, AbandonedRecovery, ResolvedOptions],
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
      CallersTasks,
      (tasks: VersionedTaskStore, { ownerResolver }: ResolvedOptions) =>
        new CallersTasks(tasks, scopeResolver(ownerResolver)),
      [LEASED_TASKS, ResolvedOptions],
    ),
    provide(
      IncomingMessages,
      (
        cards: AgentCards,
        callers: CallersTasks,
        tasks: VersionedTaskStore,
        messageTurns: MessageTurns,
        push: PushReceivers,
        { validateInputModes, turns, requests }: ResolvedOptions,
      ) =>
        new IncomingMessages(cards, callers, tasks, messageTurns, push, {
          validateInputModes,
          messageIdWindowMs: turns.messageIdWindowMs,
          limits: requests,
        }),
      [AgentCards, CallersTasks, LEASED_TASKS, MessageTurns, PushReceivers, ResolvedOptions],
    ),
    provide(
      TurnAnswers,
      (tasks: VersionedTaskStore, stream: TaskEventStream, { streams }: ResolvedOptions) =>
        new TurnAnswers(tasks, stream, streams),
      [LEASED_TASKS, TaskEventStream, ResolvedOptions],
    ),
    provide(
      A2A_REQUEST_HANDLER,
      (
        cards: AgentCards,
        callers: CallersTasks,
        stream: TaskEventStream,
        messages: IncomingMessages,
        answers: TurnAnswers,
        cancellation: TaskCancellation,
        push: PushReceivers,
        large: LargeAnswers,
      ) => new ClusterRequestHandler(cards, callers, stream, messages, answers, cancellation, push, large),
      [
        AgentCards,
        CallersTasks,
        TaskEventStream,
        IncomingMessages,
        TurnAnswers,
        TaskCancellation,
        PushReceivers,
        LargeAnswers,
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
