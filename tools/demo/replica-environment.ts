import { TIMES } from './times.js';

/** Environment variables of a story's replicas, on top of the times. */
export type ReplicaSettings = Readonly<Record<string, string>>;

/** The demo's settings and no others: an A2A_* of the caller's shell is not meant for it. */
export function replicaEnvironment(databaseUrl: string, settings: ReplicaSettings): Record<string, string | undefined> {
  const foreign = /^(A2A_.*|LEDGER_DATABASE_URL|PUBLIC_URL|HOST|PORT|REPLICA)$/;
  const inherited = Object.entries(process.env).filter(([key]) => !foreign.test(key));
  return {
    ...Object.fromEntries(inherited),
    DATABASE_URL: databaseUrl,
    A2A_HEARTBEAT_MS: String(TIMES.heartbeat),
    A2A_TTL_MS: String(TIMES.ttl),
    A2A_SWEEP_MS: String(TIMES.sweep),
    A2A_POLL_MS: String(TIMES.poll),
    A2A_DRAIN_MS: String(TIMES.drain),
    A2A_CANCEL_MS: String(TIMES.cancel),
    ...settings,
  };
}
