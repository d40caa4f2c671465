import { isIP } from 'node:net';
import { type AppConfig, readConfig } from '../../apps/sample/src/config.js';
import {
  ConfigError,
  type Environment,
  quote,
  read,
  readDatabaseUrl,
  readInteger,
} from '../../apps/sample/src/environment.js';

/**
 * What a replica reads from its environment, besides what the sample reads. A setting that is absent is left to the
 * library's default. With PORT=0 a free port is taken.
 */
export interface ReplicaConfig extends AppConfig {
  /** REPLICA: the name this replica gives itself in its output. */
  readonly replica: string;
  /** LEDGER_DATABASE_URL: another way to the same database, for the ledger; default: DATABASE_URL. */
  readonly ledgerDatabaseUrl: string;
  /** A2A_AGENT: the scripted agent, or the one for A2A's compatibility kit. */
  readonly agent: AgentName;
  /** A2A_AGENT_ID: which agent this replica serves, where several share a database; default: the library's. */
  readonly agentId: string | undefined;
  /** A2A_GRPC_PORT: where gRPC is served, at the same HOST; 0 takes a free one, absent turns it off. */
  readonly grpcPort: number | undefined;
  /** A2A_GRPC_PUBLIC_URL: where clients reach gRPC (or the load balancer before it); default: host of PUBLIC_URL, port. */
  readonly grpcPublicUrl: string | undefined;
  /** A2A_COMPAT_V03: `true` serves clients of protocol version 0.3 too. */
  readonly compatV03: boolean;
  /** A2A_LEASES: `false` runs without leases, and so without recovery. */
  readonly leases: boolean;
  readonly heartbeatMs: number | undefined;
  readonly ttlMs: number | undefined;
  readonly sweepMs: number | undefined;
  readonly policy: RecoveryPolicyName | undefined;
  readonly maxAttempts: number | undefined;
  readonly backoffMs: number | undefined;
  readonly pollMs: number | undefined;
  readonly drainMs: number | undefined;
  readonly cancelMs: number | undefined;
  readonly interruptedMs: number | undefined;
  /** A2A_STALL_MS: after how long a client that takes nothing is cut off. */
  readonly stallMs: number | undefined;
  /** A2A_PUSH_ALLOW: the networks that push may reach although they are private, and without TLS. */
  readonly pushAllow: readonly string[];
}

/** The recovery policies that A2A_POLICY may name. */
export type RecoveryPolicyName = 'fail' | 're-execute';

/** The agents that A2A_AGENT may name. */
export type AgentName = 'scripted' | 'conformance';

const POLICIES: readonly RecoveryPolicyName[] = ['fail', 're-execute'];
const AGENTS: readonly AgentName[] = ['scripted', 'conformance'];

const A2A_NAMES: readonly string[] = [
  'A2A_AGENT',
  'A2A_AGENT_ID',
  'A2A_HEARTBEAT_MS',
  'A2A_TTL_MS',
  'A2A_SWEEP_MS',
  'A2A_POLL_MS',
  'A2A_POLICY',
  'A2A_MAX_ATTEMPTS',
  'A2A_BACKOFF_MS',
  'A2A_DRAIN_MS',
  'A2A_CANCEL_MS',
  'A2A_INTERRUPTED_MS',
  'A2A_STALL_MS',
  'A2A_LEASES',
  'A2A_PUSH_ALLOW',
  'A2A_GRPC_PORT',
  'A2A_GRPC_PUBLIC_URL',
  'A2A_COMPAT_V03',
];

/**
 * Reads a replica's settings. An empty variable counts as absent. Only the form of a value is checked here; whether the
 * values fit together (a heartbeat within a third of the TTL, …) is the library's to say.
 *
 * @throws {ConfigError} for a value of the wrong form, for a missing DATABASE_URL, and for an unknown A2A_* name.
 */
export function readReplicaConfig(env: Environment): ReplicaConfig {
  refuseUnknownNames(env);
  const app = readConfig(env);
  return {
    ...app,
    replica: readReplica(env),
    ledgerDatabaseUrl: readDatabaseUrl(env, 'LEDGER_DATABASE_URL') ?? app.databaseUrl,
    agent: readChoice(env, 'A2A_AGENT', AGENTS) ?? 'scripted',
    agentId: read(env, 'A2A_AGENT_ID'),
    grpcPort: readInteger(env, 'A2A_GRPC_PORT', 65_535),
    grpcPublicUrl: readTarget(env, 'A2A_GRPC_PUBLIC_URL'),
    compatV03: readSwitch(env, 'A2A_COMPAT_V03') ?? false,
    leases: readSwitch(env, 'A2A_LEASES') ?? true,
    heartbeatMs: readInteger(env, 'A2A_HEARTBEAT_MS'),
    ttlMs: readInteger(env, 'A2A_TTL_MS'),
    sweepMs: readInteger(env, 'A2A_SWEEP_MS'),
    policy: readChoice(env, 'A2A_POLICY', POLICIES),
    maxAttempts: readInteger(env, 'A2A_MAX_ATTEMPTS'),
    backoffMs: readInteger(env, 'A2A_BACKOFF_MS'),
    pollMs: readInteger(env, 'A2A_POLL_MS'),
    drainMs: readInteger(env, 'A2A_DRAIN_MS'),
    cancelMs: readInteger(env, 'A2A_CANCEL_MS'),
    interruptedMs: readInteger(env, 'A2A_INTERRUPTED_MS'),
    stallMs: readInteger(env, 'A2A_STALL_MS'),
    pushAllow: readNetworks(env, 'A2A_PUSH_ALLOW'),
  };
}

/** A misspelt setting would otherwise be the default, silently. */
function refuseUnknownNames(env: Environment): void {
  for (const name of Object.keys(env)) {
    if (name.startsWith('A2A_') && !A2A_NAMES.includes(name)) {
      throw new ConfigError(`${name} is not a setting of this replica (there are ${A2A_NAMES.join(', ')})`);
    }
  }
}

function readReplica(env: Environment): string {
  const value = read(env, 'REPLICA') ?? 'A';
  if (/^[\w.-]{1,64}$/.test(value)) return value;
  throw new ConfigError(`REPLICA must be 1 to 64 letters, digits, dots or dashes, got ${quote(value)}`);
}

function readSwitch(env: Environment, name: string): boolean | undefined {
  const value = read(env, name);
  if (value === undefined) return undefined;
  if (value === 'true' || value === 'false') return value === 'true';
  throw new ConfigError(`${name} must be true or false, got ${quote(value)}`);
}

function readChoice<Choice extends string>(
  env: Environment,
  name: string,
  choices: readonly Choice[],
): Choice | undefined {
  const value = read(env, name);
  if (value === undefined) return undefined;
  const choice = choices.find((candidate) => candidate === value);
  if (choice !== undefined) return choice;
  throw new ConfigError(`${name} must be ${choices.join(' or ')}, got ${quote(value)}`);
}

function readTarget(env: Environment, name: string): string | undefined {
  const value = read(env, name);
  if (value === undefined || /^[^\s/]+:\d{1,5}$/.test(value)) return value;
  throw new ConfigError(`${name} must be a gRPC target such as agent.example.com:443, got ${quote(value)}`);
}

function readNetworks(env: Environment, name: string): string[] {
  const networks = (read(env, name) ?? '').split(',').map((network) => network.trim());
  const given = networks.filter((network) => network !== '');
  const bad = given.find((network) => !isNetwork(network));
  if (bad === undefined) return given;
  throw new ConfigError(`${name} must be networks such as 10.0.0.0/8, separated by commas, got ${quote(bad)}`);
}

function isNetwork(value: string): boolean {
  const [address = '', prefix = '', ...rest] = value.split('/');
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  return rest.length === 0 && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits;
}
