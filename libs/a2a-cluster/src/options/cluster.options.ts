import { type OwnerResolver, resolveUserScope } from '@a2a-js/sdk/server';
import type { UserBuilder } from '@a2a-js/sdk/server/express';
import { type CardOptions, resolveCard, type ResolvedCardOptions } from './card.options.js';
import { type ContextCodec, defaultContextCodec } from './context-codec.js';
import { type DatabaseOptions, resolveDatabase } from './database.options.js';
import { type GrpcOptions, resolveGrpc } from './grpc.options.js';
import { type LeaseTimes, resolveLeases } from './lease.options.js';
import { type LegacyCompat, resolveLegacyCompat } from './legacy-compat.options.js';
import { type PushOptions, resolvePush } from './push.options.js';
import { type RequestLimits, resolveRequests } from './request.options.js';
import { resolveRetention, type RetentionOptions } from './retention.options.js';
import { requireDuration } from './rules.js';
import { resolveStreams, type StreamOptions } from './stream.options.js';
import { resolveSweeper, type SweeperOptions } from './sweeper.options.js';
import { resolveTransports } from './transport.options.js';
import { type RepeatedMessageOptions, resolveTurns, type TurnOptions } from './turn.options.js';

/**
 * Options of the cluster. Times end in `Ms` and are in milliseconds, sizes end in `Bytes`. An option that is undefined
 * counts as not given. All of them are checked when the app boots: a wrong one throws `ClusterOptionsError`, which
 * names the option, the value and the rule.
 */
export interface A2AClusterOptions extends CardOptions {
  /**
   * How the lease of a running turn is kept: see {@link LeaseTimes}. `false`: there are no leases and no sweeper, for a
   * single replica. Defaults: heartbeatIntervalMs 30 000, ttlMs 120 000.
   */
  leases?: Partial<LeaseTimes> | false;
  /**
   * How abandoned turns are found, and what becomes of them: see {@link SweeperOptions}. Not to be given with
   * `leases: false`. Defaults: intervalMs 30 000, batchSize 100, policy `'fail'`, maxAttempts 3,
   * maxConcurrentRecoveries 4, backoffMs 1 000.
   */
  sweeper?: Partial<SweeperOptions>;
  /**
   * How events reach those who follow a task, and how long they are kept. Defaults: pollIntervalMs 1 000, notify true,
   * retentionMs 3 600 000, keepAliveMs 15 000, maxUnsentBytes 64 MiB, stallTimeoutMs 60 000.
   */
  streams?: Partial<StreamOptions>;
  /**
   * What one request may hold: see {@link RequestLimits}. Defaults: maxParts 10 000, maxReferenceTasks 20,
   * maxReferenceBytes 16 MiB, maxValues 250 000.
   */
  requests?: Partial<RequestLimits>;
  /**
   * Times and bounds of turns: see {@link TurnOptions}. Defaults: maxTurnDurationMs 24 h, unfinishedTurn `'fail'`,
   * drainTimeoutMs 10 000, cancelTimeoutMs 5 000, maxQueuedBytes 64 MiB, messageIdWindowMs 5 min.
   */
  turns?: Partial<TurnOptions & RepeatedMessageOptions>;
  /** How long what is over is kept. Defaults: effectsMs 7 days, or as long as a turn may last; tasksMs `Infinity`. */
  retention?: Partial<RetentionOptions>;
  /** The library's own use of the database. Default: maxConnections 10. */
  database?: Partial<DatabaseOptions>;
  /**
   * How push receivers are told: see {@link PushOptions}. Defaults: allow none, timeoutMs 10 000, maxAttempts 10,
   * backoffMs 1 000, maxConcurrentDeliveries 256.
   */
  push?: Partial<PushOptions>;
  /**
   * The gRPC transport, `{ port: 50051 }` and more: see {@link GrpcOptions}. `false`: there is none. Default: false.
   */
  grpc?: (Partial<GrpcOptions> & Pick<GrpcOptions, 'port'>) | false;
  /**
   * Whether clients of protocol version 0.3 are served beside those of 1.0, at the same paths and ports. `true`: on
   * every transport that is on. An object says so for each: see {@link LegacyCompat}. A client that names no version
   * counts as one of 0.3. Default: false.
   */
  legacyCompat?: boolean | Partial<LegacyCompat>;
  /**
   * How long a task may wait for its client, in ms. Then the next sweep ends it FAILED; with `leases: false` there is
   * one every 30 000 for it. A whole number from 1 to 2^31 - 1. Default: none; such a task waits for ever.
   */
  interruptedTaskTimeoutMs?: number;
  /**
   * Says who calls over HTTP. Default: what guards and middleware left in `req.user`, in passport's manner: its first
   * of `userName`, `username`, `sub`, `id` and `email`. Without a `req.user` the caller is anonymous. A user with none
   * of these names is an error.
   */
  userBuilder?: UserBuilder;
  /**
   * Says whose task a call means: a caller sees the tasks of its own tenant and owner only. Default: the SDK's
   * `resolveUserScope`, the user's name.
   */
  ownerResolver?: OwnerResolver;
  /**
   * Writes the caller of a turn into its lease, and reads it there when the turn is run again. Default:
   * `defaultContextCodec`, which keeps tenant, user name, protocol version and extensions.
   */
  contextCodec?: ContextCodec;
  /** Whether the app's global guards, interceptors and filters run around turns too. Default: false. */
  globalEnhancers?: boolean;
}

/** What the `useClass` and `useExisting` of `forRootAsync` implement. */
export interface A2AClusterOptionsFactory {
  createA2AClusterOptions(): A2AClusterOptions | Promise<A2AClusterOptions>;
}

/** @internal The options with every default in place: a type, and the token under which the module provides them. */
export abstract class ResolvedOptions implements ResolvedCardOptions {
  abstract readonly agentCard: ResolvedCardOptions['agentCard'];
  abstract readonly publicUrl: ResolvedCardOptions['publicUrl'];
  abstract readonly extendedAgentCard: ResolvedCardOptions['extendedAgentCard'];
  abstract readonly cardSignature: ResolvedCardOptions['cardSignature'];
  abstract readonly validateInputModes: boolean;
  abstract readonly leases: LeaseTimes | false;
  abstract readonly sweeper: SweeperOptions;
  abstract readonly streams: StreamOptions;
  abstract readonly requests: RequestLimits;
  abstract readonly turns: TurnOptions & RepeatedMessageOptions;
  abstract readonly retention: RetentionOptions;
  abstract readonly database: DatabaseOptions;
  abstract readonly push: PushOptions;
  abstract readonly grpc: GrpcOptions | false;
  abstract readonly legacyCompat: LegacyCompat;
  abstract readonly interruptedTaskTimeoutMs: number | undefined;
  /** Undefined: the HTTP transports read `req.user`. */
  abstract readonly userBuilder: UserBuilder | undefined;
  abstract readonly ownerResolver: OwnerResolver;
  abstract readonly contextCodec: ContextCodec;
  abstract readonly globalEnhancers: boolean;
}

/** Fills the defaults in and checks all rules. Throws `ClusterOptionsError`. */
export function resolveOptions(given: A2AClusterOptions, transports = resolveTransports()): ResolvedOptions {
  const options = given ?? ({} as A2AClusterOptions);
  const grpc = resolveGrpc(options.grpc);
  const card = resolveCard(options, grpc);
  const leases = resolveLeases(options.leases);
  const streams = resolveStreams(options.streams, leases);
  const turns = resolveTurns(options.turns);
  const { interruptedTaskTimeoutMs } = options;
  if (interruptedTaskTimeoutMs !== undefined) requireDuration('interruptedTaskTimeoutMs', interruptedTaskTimeoutMs);
  return {
    ...card,
    leases,
    sweeper: resolveSweeper(options.sweeper, leases),
    streams,
    requests: resolveRequests(options.requests),
    turns,
    retention: resolveRetention(options.retention, streams, turns),
    database: resolveDatabase(options.database),
    push: resolvePush(options.push),
    grpc,
    legacyCompat: resolveLegacyCompat(options.legacyCompat, transports, grpc),
    interruptedTaskTimeoutMs,
    userBuilder: options.userBuilder,
    ownerResolver: options.ownerResolver ?? resolveUserScope,
    contextCodec: options.contextCodec ?? defaultContextCodec,
    globalEnhancers: options.globalEnhancers ?? false,
  };
}
