import type { AgentCard, AgentCardSignatureGenerator } from '@a2a-js/sdk';
import { type ExtendedAgentCardProvider, type OwnerResolver, resolveUserScope } from '@a2a-js/sdk/server';
import type { UserBuilder } from '@a2a-js/sdk/server/express';
import type { InjectionToken, ModuleMetadata, Provider, Type } from '@nestjs/common';

import { MAX_TIMER_MS, requireDuration, requireOneOf, requireWhole, withoutUndefined } from './option-rules.js';
import { resolveGrpc, resolveLegacyCompat, resolveTransports } from './transport-options.js';
import { DEFAULT_CONNECTIONS } from '../postgres/connection/cluster-database.js';
import { LEAST_CONNECTIONS } from '../postgres/connection/connection-queue.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import type { LeaseTimes } from './lease-times.js';
import type { AgentCardInput } from '../protocol/agent-cards.js';
import type { GuardInput } from '../transports/http/controllers.js';
import type { GrpcOptions } from './grpc-options.js';
import type { LegacyCompat } from './legacy-compat.js';
import { REQUEST_DEFAULTS, type RequestLimits } from './request-limits.js';
import type { TransportPaths } from './transport-paths.js';
import type { PushOptions } from './push-options.js';
import { PushTargetGuard } from '../push/push-target.guard.js';
import { userFromRequest } from '../transports/http/user-builder.js';
import type { SweeperOptions } from './sweeper-options.js';
import { type ContextCodec, defaultContextCodec } from '../turns/context-codec.js';
import type { AnyExecutor } from '../turns/executor/turn-executor.js';
import type { TurnOptions } from './turn-options.js';

/** Options that Nest fixes before asynchronous options arrive; given beside `useFactory` in `forRootAsync`. */
export interface A2AClusterStaticOptions {
  /**
   * The agent: a class, which Nest makes with `imports` in sight, or the token of a provider that one of the modules in
   * `imports` exports. Required.
   */
  executor: Type<AnyExecutor> | InjectionToken;
  /** Modules whose exports the executor and the guards need. Default: none. */
  imports?: ModuleMetadata['imports'];
  /** Appended last, and so the way to replace a store: `{ provide: LeaseStore, useClass: … }`. Default: none. */
  extraProviders?: Provider[];
  /** Whether the exports are visible in every module. Default: false. */
  isGlobal?: boolean;
  /** Name of the TypeORM DataSource. Default: the default one. */
  dataSource?: string;
  /** Which agent this replica serves, where several share the tables. Default: `default`. */
  agentId?: string;
  /** Paths and body limit. Defaults: `/a2a/jsonrpc`, `/a2a/rest`, `/.well-known/agent-card.json`, 10 MiB. */
  transports?: Partial<TransportPaths>;
  /** Guards of the library's controllers, instances or classes. Default: none. */
  guards?: GuardInput[];
}

/** Options of the cluster; durations in ms. */
export interface A2AClusterOptions {
  /** What the agent says of itself. `supportedInterfaces` may be left out: it follows from the URL and the transports. */
  agentCard: AgentCardInput;
  /** The URL that clients reach all replicas under, without the global prefix. Needed for a card without interfaces. */
  publicUrl?: string;
  /** The card that authenticated callers may ask for. Default: none. */
  extendedAgentCard?: AgentCard | ExtendedAgentCardProvider;
  /** Signs the cards. Default: unsigned. */
  cardSignature?: AgentCardSignatureGenerator;
  /** Whether parts in media types that the card does not name are refused. Default: false, as in the SDK. */
  validateInputModes?: boolean;
  /**
   * How leases are kept. `ttlMs` bounds how long a dead replica's task seems alive. In `heartbeatIntervalMs`, at most a third
   * of it, five renewals are sent at the least, and at any interval one every twentieth of `ttlMs`: a database that does
   * not answer for 0.8 `ttlMs` loses no lease. Defaults: 30 000 and 120 000, the long side of what job queues use, since a
   * false alarm costs a task. `false`: no leases and no sweeper, for a single replica.
   */
  leases?: Partial<LeaseTimes> | false;
  /**
   * Defaults: intervalMs 30 000, batchSize 100, policy `fail`, maxAttempts 3, maxConcurrentRecoveries 4, backoffMs 1 000.
   */
  sweeper?: Partial<SweeperOptions>;
  streams?: {
    /** What a lost wake-up costs at most. Default: 1 000. */
    pollIntervalMs?: number;
    /**
     * Wake-ups by LISTEN and NOTIFY. Turn it off behind a pooler that does not carry them: a replica that finds it out by
     * itself says so once, polls, and tries again every ten minutes. Default: true.
     */
    notify?: boolean;
    /**
     * How long events stay in the log at least; then they go once the snapshot contains them and every push receiver
     * has them. A subscriber that is further behind gets updates that bring it level. At least `leases.ttlMs` (120 000
     * with `leases: false`): for so long a commit whose answer was lost is looked for in the log. `Infinity`: for ever.
     * Default: 3 600 000, or the TTL where that is longer.
     */
    retentionMs?: number;
    /**
     * For how long an SSE stream is silent at most: then it carries a comment, which clients skip, since proxies cut
     * connections that carry nothing (nginx and AWS load balancers after 60 s). `Infinity`: no comments. Default:
     * 15 000, as the HTML standard advises authors of event streams.
     */
    keepAliveMs?: number;
    /**
     * How many bytes this replica may hold for clients that have not read them yet: answers and events that are large, or
     * whose client has fallen behind. One larger answer is allowed alone. Beyond it large answers wait for room, those
     * who take nothing are cut off, longest first, and what finds no room in time is refused. Default: 64 MiB, as much as
     * `turns.maxQueuedBytes` allows one turn.
     */
    maxUnsentBytes?: number;
    /**
     * A client that takes nothing of what waits for it for so long is cut off: sooner, after 5 000, where others wait
     * for room. A subscriber comes back and goes on. Default: 60 000, as nginx's `send_timeout`.
     */
    stallTimeoutMs?: number;
  };
  /**
   * What one request may hold, so that none of them stops the process or fills it. Defaults: maxParts 10 000,
   * maxReferenceTasks 20, maxReferenceBytes 16 MiB, maxValues 250 000.
   */
  requests?: Partial<RequestLimits>;
  /**
   * Defaults: maxTurnDurationMs 24 h (`Infinity`: none), unfinishedTurn `fail`, drainTimeoutMs 10 000, cancelTimeoutMs
   * 5 000, maxQueuedBytes 64 MiB, messageIdWindowMs 5 min.
   */
  turns?: Partial<TurnOptions> & { messageIdWindowMs?: number };
  /** The library's own use of the database. */
  database?: {
    /**
     * How many connections the library opens at most, beside those of the app's own pool, for each module. Three of them are
     * opened at boot and kept: one for renewals, one for cancels and recovery, one for the rest. Wake-ups take one
     * more. At least 4. Default: 10, as `pg`'s pool has it.
     */
    maxConnections?: number;
  };
  /**
   * Push notifications; the agent card says whether there are any (`capabilities.pushNotifications`). Defaults: allow none,
   * timeoutMs 10 000, maxAttempts 10, backoffMs 1 000, maxConcurrentDeliveries 256.
   */
  push?: Partial<PushOptions>;
  /**
   * The gRPC transport, which needs the packages @grpc/grpc-js and @bufbuild/protobuf: `{ port: 50051 }` and more. Messages
   * are as large as `transports.bodyLimitBytes` allows. Default: false.
   */
  grpc?: (Partial<GrpcOptions> & Pick<GrpcOptions, 'port'>) | false;
  /**
   * Whether clients of protocol version 0.3 are served beside those of 1.0, at the same paths and ports, by the SDK's
   * compatibility layer: `true` on every transport that is on, or for each. A client that says no version is one of them.
   * Default: false.
   */
  legacyCompat?: boolean | Partial<LegacyCompat>;
  /** How long what is over is kept. A message's receipt goes with `turns.messageIdWindowMs`. */
  retention?: {
    /**
     * The ledger of outside actions, once their turn is over: until then it is what keeps them from being repeated,
     * afterwards evidence. At least `turns.maxTurnDurationMs`; `Infinity`: for ever. Default: 7 days, or as long as
     * a turn may last.
     */
    effectsMs?: number;
    /**
     * Tasks that have ended: later they are not found any more. At least `streams.retentionMs`, since their events go
     * first; `Infinity`: for ever. Default: `Infinity`.
     */
    tasksMs?: number;
  };
  /** After how long a task that waits for its client is ended FAILED. Default: never. */
  interruptedTaskTimeoutMs?: number;
  /** Who calls. Default: what guards and middleware left in `req.user`. */
  userBuilder?: UserBuilder;
  /** Whose task it is. Default: the SDK's `resolveUserScope`, the user's name. */
  ownerResolver?: OwnerResolver;
  /** How the call context survives with the lease. Default: tenant, user name, protocol version, extensions. */
  contextCodec?: ContextCodec;
  /** Whether the app's global guards, interceptors and filters run around turns too. Default: false. */
  globalEnhancers?: boolean;
}

/** What `forRootAsync`'s `useClass` and `useExisting` implement. */
export interface A2AClusterOptionsFactory {
  createA2AClusterOptions(): A2AClusterOptions | Promise<A2AClusterOptions>;
}

/** The options with every default in place. */
export interface ResolvedOptions extends Omit<
  A2AClusterOptions,
  'leases' | 'sweeper' | 'streams' | 'requests' | 'turns' | 'retention' | 'database' | 'push' | 'grpc' | 'legacyCompat'
> {
  leases: LeaseTimes | false;
  sweeper: SweeperOptions | false;
  streams: {
    pollIntervalMs: number;
    notify: boolean;
    retentionMs: number;
    keepAliveMs: number;
    maxUnsentBytes: number;
    stallTimeoutMs: number;
  };
  requests: RequestLimits;
  turns: TurnOptions & { messageIdWindowMs: number };
  retention: { effectsMs: number; tasksMs: number };
  database: { maxConnections: number };
  push: PushOptions;
  grpc: GrpcOptions | false;
  legacyCompat: LegacyCompat;
  userBuilder: UserBuilder;
  ownerResolver: OwnerResolver;
  contextCodec: ContextCodec;
  validateInputModes: boolean;
  globalEnhancers: boolean;
}

/** Fills the defaults in and checks all rules. Throws {@link ClusterOptionsError}. */
export function resolveOptions(given: A2AClusterOptions, transports = resolveTransports()): ResolvedOptions {
  const options = given ?? ({} as A2AClusterOptions);
  const grpc = resolveGrpc(options.grpc);
  if (options.leases === false && options.sweeper) {
    throw ClusterOptionsError.rule(
      'sweeper',
      options.sweeper,
      'without leases (leases: false) there is nothing to sweep',
    );
  }
  const turns = { ...TURN_DEFAULTS, ...withoutUndefined(options.turns) };
  const leases = options.leases !== false && { ...LEASE_DEFAULTS, ...withoutUndefined(options.leases) };
  const resolved: ResolvedOptions = {
    ...options,
    leases,
    sweeper: options.leases !== false && { ...SWEEPER_DEFAULTS, ...withoutUndefined(options.sweeper) },
    streams: { ...STREAM_DEFAULTS, retentionMs: eventsKept(leases), ...withoutUndefined(options.streams) },
    requests: { ...REQUEST_DEFAULTS, ...withoutUndefined(options.requests) },
    turns,
    retention: { effectsMs: effectsKept(turns), tasksMs: Infinity, ...withoutUndefined(options.retention) },
    database: { maxConnections: DEFAULT_CONNECTIONS, ...withoutUndefined(options.database) },
    push: { ...PUSH_DEFAULTS, ...withoutUndefined(options.push) },
    grpc,
    legacyCompat: resolveLegacyCompat(options.legacyCompat, transports, grpc),
    userBuilder: options.userBuilder ?? userFromRequest,
    ownerResolver: options.ownerResolver ?? resolveUserScope,
    contextCodec: options.contextCodec ?? defaultContextCodec,
    validateInputModes: options.validateInputModes ?? false,
    globalEnhancers: options.globalEnhancers ?? false,
  };
  check(resolved);
  return resolved;
}

/** Longer is for ever. */
const CENTURY_MS = 100 * 365 * 24 * 3_600_000;

const LEASE_DEFAULTS: LeaseTimes = { heartbeatIntervalMs: 30_000, ttlMs: 120_000 };
/** How often is looked for what has to be ended, in ms. */
export const DEFAULT_SWEEP_MS = 30_000;

const SWEEPER_DEFAULTS: SweeperOptions = {
  ...{ intervalMs: DEFAULT_SWEEP_MS, batchSize: 100, policy: 'fail' },
  ...{ maxAttempts: 3, maxConcurrentRecoveries: 4, backoffMs: 1_000 },
};
/**
 * Without leases a batch of events is tried again for this long, in ms: as long as the default TTL of a lease, which bounds
 * it elsewhere. Each try looks in the log for what the one before may have stored.
 */
export const RETRIED_WITHOUT_LEASES_MS = 120_000;

const STREAM_DEFAULTS = {
  pollIntervalMs: 1_000,
  notify: true,
  keepAliveMs: 15_000,
  maxUnsentBytes: 64 * 1024 * 1024,
  stallTimeoutMs: 60_000,
};
/** An hour for those who follow a task and fall behind. */
const EVENTS_KEPT_MS = 3_600_000;

/** Never shorter than a commit may be tried again. What is no number of ms is refused by its own name. */
const eventsKept = (leases: LeaseTimes | false): number =>
  leases && leases.ttlMs > EVENTS_KEPT_MS ? leases.ttlMs : EVENTS_KEPT_MS;

const TURN_DEFAULTS: ResolvedOptions['turns'] = {
  maxTurnDurationMs: 24 * 3_600_000,
  unfinishedTurn: 'fail',
  drainTimeoutMs: 10_000,
  cancelTimeoutMs: 5_000,
  maxQueuedBytes: 64 * 1024 * 1024,
  messageIdWindowMs: 5 * 60_000,
};
/** A week to ask what a turn has done. */
const EFFECTS_KEPT_MS = 7 * 24 * 3_600_000;

const effectsKept = ({ maxTurnDurationMs }: TurnOptions): number =>
  maxTurnDurationMs === Infinity ? EFFECTS_KEPT_MS : Math.max(EFFECTS_KEPT_MS, maxTurnDurationMs);

/** A receiver that is down is given up after about a quarter of an hour. */
export const PUSH_DEFAULTS: PushOptions = {
  ...{ allow: [], timeoutMs: 10_000, maxAttempts: 10, backoffMs: 1_000, maxConcurrentDeliveries: 256 },
};
function check(options: ResolvedOptions): void {
  const { leases, sweeper, streams, requests, turns, push, interruptedTaskTimeoutMs } = options;
  checkCard(options);
  if (leases) {
    requireDuration('leases.heartbeatIntervalMs', leases.heartbeatIntervalMs);
    requireDuration('leases.ttlMs', leases.ttlMs);
    if (leases.heartbeatIntervalMs > leases.ttlMs / 3) {
      throw ClusterOptionsError.rule(
        'leases.heartbeatIntervalMs',
        leases.heartbeatIntervalMs,
        `it must be at most a third of leases.ttlMs (${leases.ttlMs}), so that one failed renewal does not lose the lease`,
      );
    }
  }
  if (sweeper) {
    requireDuration('sweeper.intervalMs', sweeper.intervalMs);
    requireWhole('sweeper.batchSize', sweeper.batchSize, 1, 10_000);
    requireWhole('sweeper.maxAttempts', sweeper.maxAttempts, 1, 1_000_000);
    requireWhole('sweeper.maxConcurrentRecoveries', sweeper.maxConcurrentRecoveries, 1, 1_000_000);
    requireWhole('sweeper.backoffMs', sweeper.backoffMs, 0, MAX_TIMER_MS);
    if (typeof sweeper.policy !== 'function') {
      requireOneOf('sweeper.policy', sweeper.policy, ['fail', 're-execute'], ' or a function');
    }
  }
  requireDuration('streams.pollIntervalMs', streams.pollIntervalMs);
  checkEventRetention(options);
  if (streams.keepAliveMs !== Infinity) requireDuration('streams.keepAliveMs', streams.keepAliveMs);
  requireWhole('streams.maxUnsentBytes', streams.maxUnsentBytes, 1, Number.MAX_SAFE_INTEGER);
  requireDuration('streams.stallTimeoutMs', streams.stallTimeoutMs);
  for (const [name, limit] of Object.entries(requests)) {
    requireWhole(`requests.${name}`, limit, name === 'maxReferenceTasks' ? 0 : 1, Number.MAX_SAFE_INTEGER);
  }
  if (turns.maxTurnDurationMs !== Infinity) requireDuration('turns.maxTurnDurationMs', turns.maxTurnDurationMs);
  requireOneOf('turns.unfinishedTurn', turns.unfinishedTurn, ['fail', 'complete']);
  requireWhole('turns.drainTimeoutMs', turns.drainTimeoutMs, 0, MAX_TIMER_MS);
  requireDuration('turns.cancelTimeoutMs', turns.cancelTimeoutMs);
  requireWhole('turns.maxQueuedBytes', turns.maxQueuedBytes, 1, Number.MAX_SAFE_INTEGER);
  requireWhole('turns.messageIdWindowMs', turns.messageIdWindowMs, 0, MAX_TIMER_MS);
  requireWhole('database.maxConnections', options.database.maxConnections, LEAST_CONNECTIONS, 10_000);
  checkRetention(options);
  checkPush(push);
  if (interruptedTaskTimeoutMs !== undefined) requireDuration('interruptedTaskTimeoutMs', interruptedTaskTimeoutMs);
}

/** A commit whose answer was lost is looked for in the log: were its events pruned by then, they would be stored twice. */
function checkEventRetention({ streams: { retentionMs }, leases }: ResolvedOptions): void {
  if (retentionMs === Infinity) return;
  requireDuration('streams.retentionMs', retentionMs);
  const retriedMs = leases ? leases.ttlMs : RETRIED_WITHOUT_LEASES_MS;
  if (retentionMs >= retriedMs) return;
  const bound = leases ? `leases.ttlMs (${retriedMs})` : `${retriedMs} with leases: false`;
  throw ClusterOptionsError.rule(
    'streams.retentionMs',
    retentionMs,
    `it must be at least ${bound}, for which a commit whose answer was lost is tried again: ` +
      'it finds by the log that it was stored, and would store its events twice without them',
  );
}

function checkRetention({ retention, streams, turns }: ResolvedOptions): void {
  const { effectsMs, tasksMs } = retention;
  if (effectsMs !== Infinity) {
    requireWhole('retention.effectsMs', effectsMs, 1, CENTURY_MS);
    if (turns.maxTurnDurationMs !== Infinity && effectsMs < turns.maxTurnDurationMs) {
      throw ClusterOptionsError.rule(
        'retention.effectsMs',
        effectsMs,
        `it must be at least turns.maxTurnDurationMs (${turns.maxTurnDurationMs}): until then a turn may ask what it has done`,
      );
    }
  }
  if (tasksMs === Infinity) return;
  requireWhole('retention.tasksMs', tasksMs, 1, CENTURY_MS);
  if (tasksMs < streams.retentionMs) {
    throw ClusterOptionsError.rule(
      'retention.tasksMs',
      tasksMs,
      `it must be at least streams.retentionMs (${streams.retentionMs}), by which a task's events go first`,
    );
  }
}

function checkPush({ allow, timeoutMs, maxAttempts, backoffMs, maxConcurrentDeliveries }: PushOptions): void {
  try {
    new PushTargetGuard(allow);
  } catch {
    throw ClusterOptionsError.rule('push.allow', allow, "it must be a list of networks such as '10.0.0.0/8'");
  }
  requireDuration('push.timeoutMs', timeoutMs);
  requireWhole('push.maxAttempts', maxAttempts, 1, 1_000);
  requireDuration('push.backoffMs', backoffMs);
  requireWhole('push.maxConcurrentDeliveries', maxConcurrentDeliveries, 1, 10_000);
}

function checkCard({ agentCard, publicUrl, grpc }: ResolvedOptions): void {
  if (!agentCard || typeof agentCard !== 'object' || !agentCard.name) {
    throw ClusterOptionsError.rule('agentCard', agentCard, 'the agent needs a card with at least a name');
  }
  if (publicUrl !== undefined && !(URL.canParse(publicUrl) && /^https?:$/.test(new URL(publicUrl).protocol))) {
    throw ClusterOptionsError.rule(
      'publicUrl',
      publicUrl,
      'it must be an absolute URL such as https://agent.example.com',
    );
  }
  if (publicUrl === undefined && !agentCard.supportedInterfaces?.length) {
    throw ClusterOptionsError.rule(
      'publicUrl',
      publicUrl,
      'a card without supportedInterfaces needs the URL under which clients reach the agent',
    );
  }
  const { supportedInterfaces = [] } = agentCard;
  if (grpc && supportedInterfaces.length > 0 && !supportedInterfaces.some(isGrpc)) {
    throw ClusterOptionsError.rule(
      'agentCard.supportedInterfaces',
      supportedInterfaces.map(({ protocolBinding }) => protocolBinding),
      "with the option grpc one of them must have the protocolBinding GRPC, or the SDK refuses gRPC's calls",
    );
  }
}

const isGrpc = ({ protocolBinding }: { protocolBinding: string }): boolean => protocolBinding === 'GRPC';
