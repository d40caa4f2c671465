import type { ResolvedOptions } from '../../options/cluster.options.js';
import { type DatabaseLimits, SERVER_MARGIN_MS } from './cluster-database.js';

/** Below this, in ms, no statement is given up on: a busy machine is not a dead one. */
export const MIN_STATEMENT_TIMEOUT_MS = 2_000;

/**
 * How much of a lease's TTL a statement may take on the server: what its holder sent is then over before it is claimed.
 */
const STATEMENT_SHARE = 0.9;

/** The bounds that follow from the times of the leases. */
export function databaseLimits({ leases, database }: ResolvedOptions): DatabaseLimits {
  const { maxConnections } = database;
  if (!leases) return { maxTimeoutMs: MIN_STATEMENT_TIMEOUT_MS, maxConnections };
  const { heartbeatIntervalMs, ttlMs } = leases;
  const maxTimeoutMs = Math.max(MIN_STATEMENT_TIMEOUT_MS, heartbeatIntervalMs);
  return {
    maxTimeoutMs,
    maxTransactionMs: ttlMs / 3,
    serverLimitMs: Math.min(maxTimeoutMs + SERVER_MARGIN_MS, ttlMs * STATEMENT_SHARE),
    maxConnections,
  };
}
