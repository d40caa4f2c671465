import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { type LeaseTimes, TIMES_WITHOUT_LEASES } from './lease.options.js';
import { requireDuration, requireWhole, withoutUndefined } from './rules.js';

/** How events reach those who follow a task, and how long they are kept. */
export interface StreamOptions {
  /**
   * How often the database is asked for what no wake-up told, in ms: events that other replicas stored, cancel
   * requests, push receivers that are due. It is what a lost wake-up costs at most. A whole number from 1 to 2^31 - 1.
   * Default: 1 000.
   */
  pollIntervalMs: number;
  /**
   * Whether replicas wake each other by LISTEN and NOTIFY. Turn it off behind a pooler that does not carry them. A
   * replica that finds such a pooler by itself warns once, polls, and tries again every ten minutes. Default: true.
   */
  notify: boolean;
  /**
   * How long events stay in the log at least, in ms. Then an event is deleted once the task's snapshot contains it and
   * every push receiver has it. A subscriber that is further behind gets updates that bring it level.
   *
   * `Infinity`, or a whole number from 1 to 2^31 - 1, and at least `leases.ttlMs` (120 000 with `leases: false`): for
   * that long a commit whose answer was lost is repeated, and looked for in the log. Default: 3 600 000, an hour for
   * those who fall behind, or `leases.ttlMs` where that is longer.
   */
  retentionMs: number;
  /**
   * How long an SSE stream is silent at most, in ms. Then it carries a comment, which clients skip, since proxies cut
   * silent connections (nginx and AWS load balancers after 60 s). gRPC connections are pinged at the same pace.
   * `Infinity`: no comments and no pings. Otherwise a whole number from 1 to 2^31 - 1. Default: 15 000, as the HTML
   * standard advises authors of event streams.
   */
  keepAliveMs: number;
  /**
   * How many bytes this replica may hold for clients that have not read them yet. Counted are large answers and events,
   * and small ones once their client has fallen behind. One answer that is larger is allowed alone.
   *
   * If there is no room, a large answer waits for it, and clients that do not read are cut off, the one that has been
   * idle longest first. An answer that finds no room within 15 s is refused (RESOURCE_EXHAUSTED over gRPC). A
   * whole number of at least 1. Default: 64 MiB, as much as `turns.maxQueuedBytes` allows one turn.
   */
  maxUnsentBytes: number;
  /**
   * After how long a client that does not read is cut off, in ms. While others wait for room, it is cut off after
   * 5 000 at most. A subscriber may come back and go on where it was. A whole number from 1 to
   * 2^31 - 1. Default: 60 000, as nginx's `send_timeout`.
   */
  stallTimeoutMs: number;
}

/** An hour for those who follow a task and fall behind. */
const EVENTS_KEPT_MS = 3_600_000;

const STREAM_DEFAULTS: StreamOptions = {
  pollIntervalMs: 1_000,
  notify: true,
  retentionMs: EVENTS_KEPT_MS,
  keepAliveMs: 15_000,
  maxUnsentBytes: 64 * 1024 * 1024,
  stallTimeoutMs: 60_000,
};

/** The streams with their defaults. Throws {@link ClusterOptionsError}. */
export function resolveStreams(given: Partial<StreamOptions> | undefined, leases: LeaseTimes | false): StreamOptions {
  const streams: StreamOptions = { ...STREAM_DEFAULTS, ...withoutUndefined(given) };
  // Never shorter by default than a commit may be repeated.
  if (given?.retentionMs === undefined && leases) streams.retentionMs = Math.max(EVENTS_KEPT_MS, leases.ttlMs);
  requireDuration('streams.pollIntervalMs', streams.pollIntervalMs);
  requireEventsKept(streams.retentionMs, leases);
  if (streams.keepAliveMs !== Infinity) requireDuration('streams.keepAliveMs', streams.keepAliveMs);
  requireWhole('streams.maxUnsentBytes', streams.maxUnsentBytes, 1, Number.MAX_SAFE_INTEGER);
  requireDuration('streams.stallTimeoutMs', streams.stallTimeoutMs);
  return streams;
}

/**
 * A commit whose answer was lost is looked for in the log. If its events were pruned by then, they would be stored
 * twice.
 */
function requireEventsKept(retentionMs: number, leases: LeaseTimes | false): void {
  if (retentionMs === Infinity) return;
  requireDuration('streams.retentionMs', retentionMs);
  const retriedMs = (leases || TIMES_WITHOUT_LEASES).ttlMs;
  if (retentionMs >= retriedMs) return;
  const bound = leases ? `leases.ttlMs (${retriedMs})` : `${retriedMs} with leases: false`;
  throw ClusterOptionsError.rule(
    'streams.retentionMs',
    retentionMs,
    `it must be at least ${bound}, for which a commit whose answer was lost is tried again: ` +
      'it finds by the log that it was stored, and would store its events twice without them',
  );
}
