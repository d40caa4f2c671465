export { A2AClusterModule } from './module/a2a-cluster.module.js';
export type { A2AClusterOptions, A2AClusterOptionsFactory } from './options/cluster.options.js';
export type { A2AClusterStaticOptions, GuardInput } from './options/static.options.js';
export { A2A_CLUSTER_ENTITIES, A2A_CLUSTER_MIGRATIONS } from './postgres/schema/entities.js';
export { A2A_REQUEST_HANDLER } from './protocol/request-handler.token.js';

export { currentTurn } from './turns/current-turn.js';
export { Turn } from './turns/turn.js';
export { TurnRequestContext } from './turns/turn-request-context.js';
export type { AnyExecutor, TurnExecutor } from './turns/executor/turn-executor.js';
export { A2A_CONTEXT_TYPE } from './turns/executor/executor-provider.js';
export { type ContextCodec, defaultContextCodec } from './options/context-codec.js';
export type { TurnOptions } from './options/turn.options.js';

export type { RequestLimits } from './options/request.options.js';
export type { LeaseTimes } from './options/lease.options.js';

export type {
  DispatchedEffect,
  EffectCall,
  EffectContract,
  EffectOutcome,
  EffectReconciler,
} from './effects/turn-effects.js';
export type { TransactionOptions, TransactionWork } from './effects/turn-transactions.js';
export { EFFECTS_METADATA_KEY, type UnresolvedEffect } from './effects/unresolved-effects.js';

export type { PushOptions } from './options/push.options.js';

export { AbandonedTaskSweeper, type SweepResult } from './recovery/abandoned-task.sweeper.js';
export { RECOVERY_METADATA_KEY, type RecoveryOutcome } from './recovery/abandoned-turn.recovery.js';
export type { AbandonedTurn, RecoveryDecision, RecoveryPolicy } from './options/recovery-policy.js';
export type { SweeperOptions } from './options/sweeper.options.js';

export type { AgentCardInput } from './options/card.options.js';
export { A2AGrpcServer } from './transports/grpc/a2a-grpc.server.js';
export type { GrpcCall, GrpcOptions, GrpcUserBuilder } from './options/grpc.options.js';
export type { LegacyCompat } from './options/legacy-compat.options.js';
export type { TransportPaths } from './options/transport.options.js';

export { ClusterOptionsError } from './errors/cluster-options.error.js';
export { DatabaseClosedError } from './errors/database-closed.error.js';
export { DatabaseConnectionError } from './errors/database-connection.error.js';
export { DatabaseOverloadedError } from './errors/database-overloaded.error.js';
export { DatabaseTimeoutError } from './errors/database-timeout.error.js';
export { CommitOutcomeUnknownError } from './errors/commit-outcome-unknown.error.js';
export { EffectNotPerformedError } from './errors/effect-not-performed.error.js';
export { EffectResultError } from './errors/effect-result.error.js';
export { EffectUnresolvedError } from './errors/effect-unresolved.error.js';
export { LeaseLostError } from './errors/lease-lost.error.js';
export { type BlockingSession, MigrationBlockedError } from './errors/migration-blocked.error.js';
export { NoCurrentTurnError } from './errors/no-current-turn.error.js';
export { ReplicaDrainingError } from './errors/replica-draining.error.js';
export { ReplicaShutdownError } from './errors/replica-shutdown.error.js';
export { StoreUnavailableError } from './errors/store-unavailable.error.js';
export { TaskCanceledError } from './errors/task-canceled.error.js';
export { type TurnAbortCode, TurnAbortedError } from './errors/turn-aborted.error.js';
export { TurnOverflowError } from './errors/turn-overflow.error.js';
export { TurnTimeoutError } from './errors/turn-timeout.error.js';
export { TurnUsageError } from './errors/turn-usage.error.js';
