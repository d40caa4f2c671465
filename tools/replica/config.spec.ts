import { ConfigError } from '../../apps/sample/src/environment.js';
import { readReplicaConfig } from './config.js';

const DATABASE_URL = 'postgres://user:secret@127.0.0.1:5432/sample';

function refusal(env: Record<string, string>): string {
  try {
    readReplicaConfig({ DATABASE_URL, ...env });
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'accepted';
}

describe('readReplicaConfig', () => {
  it('needs nothing but a database', () => {
    expect(readReplicaConfig({ DATABASE_URL, PATH: '/bin' })).toEqual({
      replica: 'A',
      host: '127.0.0.1',
      port: 3000,
      databaseUrl: DATABASE_URL,
      ledgerDatabaseUrl: DATABASE_URL,
      publicUrl: undefined,
      agent: 'scripted',
      grpcPort: undefined,
      compatV03: false,
      leases: true,
      heartbeatMs: undefined,
      ttlMs: undefined,
      sweepMs: undefined,
      policy: undefined,
      maxAttempts: undefined,
      backoffMs: undefined,
      pollMs: undefined,
      drainMs: undefined,
      cancelMs: undefined,
      interruptedMs: undefined,
      pushAllow: [],
    });
  });

  it('reads every setting', () => {
    const config = readReplicaConfig({
      DATABASE_URL,
      LEDGER_DATABASE_URL: 'postgresql://127.0.0.1:6000/sample',
      REPLICA: 'B-2',
      HOST: '0.0.0.0',
      PORT: '0',
      PUBLIC_URL: 'https://agents.example.com/',
      A2A_AGENT: 'conformance',
      A2A_AGENT_ID: 'second',
      A2A_GRPC_PORT: '50051',
      A2A_GRPC_PUBLIC_URL: 'agents.example.com:443',
      A2A_COMPAT_V03: 'true',
      A2A_LEASES: 'false',
      A2A_HEARTBEAT_MS: '500',
      A2A_TTL_MS: '2000',
      A2A_SWEEP_MS: '600',
      A2A_POLICY: 're-execute',
      A2A_MAX_ATTEMPTS: '2',
      A2A_BACKOFF_MS: '100',
      A2A_POLL_MS: '250',
      A2A_DRAIN_MS: '0',
      A2A_CANCEL_MS: '3000',
      A2A_INTERRUPTED_MS: '4000',
      A2A_PUSH_ALLOW: '127.0.0.0/8, ::1/128',
    });
    expect(config).toEqual({
      replica: 'B-2',
      host: '0.0.0.0',
      port: 0,
      databaseUrl: DATABASE_URL,
      ledgerDatabaseUrl: 'postgresql://127.0.0.1:6000/sample',
      publicUrl: 'https://agents.example.com',
      agent: 'conformance',
      agentId: 'second',
      grpcPort: 50_051,
      grpcPublicUrl: 'agents.example.com:443',
      compatV03: true,
      leases: false,
      heartbeatMs: 500,
      ttlMs: 2000,
      sweepMs: 600,
      policy: 're-execute',
      maxAttempts: 2,
      backoffMs: 100,
      pollMs: 250,
      drainMs: 0,
      cancelMs: 3000,
      interruptedMs: 4000,
      pushAllow: ['127.0.0.0/8', '::1/128'],
    });
  });

  it('takes an empty variable for an absent one', () => {
    expect(readReplicaConfig({ DATABASE_URL, PORT: '', A2A_TTL_MS: ' ' })).toMatchObject({
      port: 3000,
      ttlMs: undefined,
    });
  });

  it.each(['1.5', '-1', '1e3', '0x10', 'soon', '9007199254740993'])('refuses %s as a number', (value) => {
    expect(refusal({ A2A_TTL_MS: value })).toBe(
      `A2A_TTL_MS must be a whole number from 0 to 9007199254740991, got "${value}"`,
    );
  });

  it.each([
    ['PORT', '65536', 'PORT must be a whole number from 0 to 65535, got "65536"'],
    ['REPLICA', 'a\nb', 'REPLICA must be 1 to 64 letters, digits, dots or dashes, got "a\\nb"'],
    ['PUBLIC_URL', 'localhost:3000', 'PUBLIC_URL must be an http:// or https:// URL, got "localhost:3000"'],
    [
      'A2A_GRPC_PUBLIC_URL',
      'https://localhost:443',
      'A2A_GRPC_PUBLIC_URL must be a gRPC target such as agent.example.com:443, got "https://localhost:443"',
    ],
    ['A2A_AGENT', 'other', 'A2A_AGENT must be scripted or conformance, got "other"'],
    ['A2A_LEASES', 'no', 'A2A_LEASES must be true or false, got "no"'],
    ['A2A_POLICY', 'retry', 'A2A_POLICY must be fail or re-execute, got "retry"'],
    [
      'A2A_PUSH_ALLOW',
      '10.0.0.0/33',
      'A2A_PUSH_ALLOW must be networks such as 10.0.0.0/8, separated by commas, got "10.0.0.0/33"',
    ],
  ])('refuses %s=%j in one line', (name, value, message) => {
    expect(refusal({ [name]: value })).toBe(message);
  });

  it('refuses a name it does not know', () => {
    expect(refusal({ A2A_HEARTBEAT: '500' })).toMatch(
      /^A2A_HEARTBEAT is not a setting of this replica \(there are A2A_/,
    );
  });

  it('says that DATABASE_URL is missing', () => {
    expect(refusal({ DATABASE_URL: '' })).toMatch(/^DATABASE_URL is missing: /);
  });

  it.each(['mysql://root:secret@127.0.0.1/x', 'secret'])('does not repeat a password in %s', (value) => {
    const messages = ['DATABASE_URL', 'LEDGER_DATABASE_URL'].map((name) => refusal({ [name]: value }));
    const rule = 'must be a postgres:// or postgresql:// URL, got';
    const got = value === 'secret' ? 'something else' : '"mysql://…"';
    expect(messages).toEqual([`DATABASE_URL ${rule} ${got}`, `LEDGER_DATABASE_URL ${rule} ${got}`]);
  });
});
