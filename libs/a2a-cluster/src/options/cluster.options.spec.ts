import { resolveUserScope } from '@a2a-js/sdk/server';
import { type A2AClusterOptions, resolveOptions } from './cluster.options.js';
import { resolveTransports } from './transport.options.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { anonymousCaller } from './grpc.options.js';
import { defaultContextCodec } from './context-codec.js';

const required: A2AClusterOptions = {
  agentCard: { name: 'agent', description: '', version: '1' },
  publicUrl: 'https://agent.example.com',
};

const refusalOf = (resolve: () => unknown): ClusterOptionsError => {
  try {
    resolve();
  } catch (error) {
    if (error instanceof ClusterOptionsError) return error;
    throw error;
  }
  throw new Error('The options were accepted');
};

describe('Options', () => {
  test('have the defaults that the documentation names', () => {
    expect(resolveOptions(required)).toEqual({
      ...required,
      leases: { heartbeatIntervalMs: 30_000, ttlMs: 120_000 },
      sweeper: {
        intervalMs: 30_000,
        batchSize: 100,
        policy: 'fail',
        maxAttempts: 3,
        maxConcurrentRecoveries: 4,
        backoffMs: 1_000,
      },
      streams: {
        pollIntervalMs: 1_000,
        notify: true,
        retentionMs: 3_600_000,
        keepAliveMs: 15_000,
        maxUnsentBytes: 67_108_864,
        stallTimeoutMs: 60_000,
      },
      requests: {
        maxParts: 10_000,
        maxReferenceTasks: 20,
        maxReferenceBytes: 16_777_216,
        maxValues: 250_000,
      },
      turns: {
        firstEventMs: 1_000,
        maxTurnDurationMs: 86_400_000,
        unfinishedTurn: 'fail',
        drainTimeoutMs: 10_000,
        cancelTimeoutMs: 5_000,
        maxQueuedBytes: 67_108_864,
        messageIdWindowMs: 300_000,
      },
      retention: { effectsMs: 604_800_000, tasksMs: Infinity },
      database: { maxConnections: 10 },
      push: {
        allow: [],
        timeoutMs: 10_000,
        maxAttempts: 10,
        backoffMs: 1_000,
        maxConcurrentDeliveries: 256,
      },
      grpc: false,
      legacyCompat: { jsonRpc: false, rest: false, grpc: false },
      ownerResolver: resolveUserScope,
      contextCodec: defaultContextCodec,
      validateInputModes: false,
      globalEnhancers: false,
    });
    expect(resolveTransports()).toEqual({
      jsonRpc: '/a2a/jsonrpc',
      rest: '/a2a/rest',
      agentCard: '/.well-known/agent-card.json',
      bodyLimitBytes: 10_485_760,
    });
  });

  test('given in part keep the defaults of the rest, and undefined counts as not given', () => {
    const options = {
      ...required,
      leases: { ttlMs: 90_000, heartbeatIntervalMs: undefined },
      turns: { drainTimeoutMs: 0, unfinishedTurn: undefined },
      sweeper: undefined,
      streams: { notify: false },
      validateInputModes: undefined,
    } as unknown as A2AClusterOptions;
    const { leases, turns, sweeper, streams, validateInputModes } = resolveOptions(options);
    expect(leases).toEqual({ heartbeatIntervalMs: 30_000, ttlMs: 90_000 });
    expect(turns).toMatchObject({ drainTimeoutMs: 0, unfinishedTurn: 'fail' });
    expect(sweeper).toMatchObject({ intervalMs: 30_000 });
    expect(streams).toMatchObject({ notify: false, pollIntervalMs: 1_000 });
    expect(validateInputModes).toBe(false);
    expect(resolveTransports({ jsonRpc: undefined, rest: false } as never)).toMatchObject({
      jsonRpc: '/a2a/jsonrpc',
      rest: false,
    });
  });

  test('gRPC needs no more than a port', () => {
    expect(resolveOptions({ ...required, grpc: { port: 0, host: undefined as never } }).grpc).toEqual({
      port: 0,
      host: '0.0.0.0',
      userBuilder: anonymousCaller,
      channelOptions: {},
    });
  });

  test('version 0.3 is served on every transport that is on, or where it is said', () => {
    const compatOf = (options: Partial<A2AClusterOptions>, transports = resolveTransports()) =>
      resolveOptions({ ...required, ...options }, transports).legacyCompat;
    expect(compatOf({ legacyCompat: true })).toEqual({ jsonRpc: true, rest: true, grpc: false });
    expect(compatOf({ legacyCompat: true, grpc: { port: 0 } }, resolveTransports({ rest: false }))).toEqual({
      jsonRpc: true,
      rest: false,
      grpc: true,
    });
    expect(compatOf({ legacyCompat: { rest: true, jsonRpc: undefined as never } })).toEqual({
      jsonRpc: false,
      rest: true,
      grpc: false,
    });
  });

  test('leases: false turns the leases off', () => {
    expect(resolveOptions({ ...required, leases: false }).leases).toBe(false);
  });

  test.each<[string, unknown]>([
    ['a third exactly', { leases: { heartbeatIntervalMs: 1_000, ttlMs: 3_000 } }],
    ['the longest times', { leases: { heartbeatIntervalMs: 1, ttlMs: 2 ** 31 - 1 } }],
    ['no limit to a turn', { turns: { maxTurnDurationMs: Infinity } }],
    ['no limit to its silence', { turns: { firstEventMs: Infinity } }],
    ['events kept for ever', { streams: { retentionMs: Infinity } }],
    ['tasks and effects kept for years', { retention: { tasksMs: 2 ** 40, effectsMs: 2 ** 40 } }],
    ['effects kept for ever', { retention: { effectsMs: Infinity } }],
    ['turns longer than effects are kept by default', { turns: { maxTurnDurationMs: 1_000_000_000 } }],
    ['messages that refer to no task', { requests: { maxReferenceTasks: 0 } }],
    ['streams without comments', { streams: { keepAliveMs: Infinity } }],
    ['no drain time', { turns: { drainTimeoutMs: 0 } }],
    ['no window for repeated messages', { turns: { messageIdWindowMs: 0 } }],
    ['interfaces instead of a URL', { publicUrl: undefined, agentCard: { name: 'a', supportedInterfaces: [{}] } }],
  ])('accept %s', (_what, options) => {
    expect(() => resolveOptions({ ...required, ...(options as A2AClusterOptions) })).not.toThrow();
  });

  const durations = [
    'leases.ttlMs',
    'leases.heartbeatIntervalMs',
    'sweeper.intervalMs',
    'streams.pollIntervalMs',
    'streams.retentionMs',
    'streams.keepAliveMs',
    'streams.stallTimeoutMs',
    'turns.firstEventMs',
    'turns.maxTurnDurationMs',
    'turns.cancelTimeoutMs',
    'interruptedTaskTimeoutMs',
  ];
  const wholes = [
    'sweeper.batchSize',
    'sweeper.maxAttempts',
    'sweeper.maxConcurrentRecoveries',
    'turns.maxQueuedBytes',
    'streams.maxUnsentBytes',
    'requests.maxParts',
    'requests.maxValues',
    'requests.maxReferenceBytes',
  ];
  const orZero = ['turns.drainTimeoutMs', 'turns.messageIdWindowMs'];
  const wrong: [string, unknown][] = [
    ...[...durations, ...wholes].map((option): [string, unknown] => [option, 0]),
    ...[...durations, ...wholes, ...orZero].flatMap((option) =>
      [-1, 1.5, NaN, '1000', null, [], {}].map((value): [string, unknown] => [option, value]),
    ),
    ...[...durations, ...orZero].map((option): [string, unknown] => [option, 2 ** 31]),
    ...[...durations, ...orZero]
      .filter(
        (option) =>
          !['turns.firstEventMs', 'turns.maxTurnDurationMs', 'streams.retentionMs', 'streams.keepAliveMs'].includes(
            option,
          ),
      )
      .map((option): [string, unknown] => [option, Infinity]),
    ...['retention.effectsMs', 'retention.tasksMs'].flatMap((option) =>
      [0, -1, 1.5, NaN, '1000', null, 1e15].map((value): [string, unknown] => [option, value]),
    ),
    ['retention.effectsMs', 86_399_999],
    ['retention.tasksMs', 3_599_999],
    ['leases.ttlMs', 120_000n],
    ['sweeper.policy', 'ignore'],
    ['sweeper.policy', null],
    ['sweeper.backoffMs', -1],
    ['sweeper.backoffMs', 2 ** 31],
    ['sweeper.maxConcurrentRecoveries', Infinity],
    ['push.allow', ['10.0.0.0']],
    ['push.allow', 'all'],
    ['push.maxAttempts', 0],
    ['push.timeoutMs', Infinity],
    ['legacyCompat', 'on'],
    ['legacyCompat', 1],
    ['legacyCompat.rest', 'yes'],
    ['legacyCompat.jsonrpc', true],
    ['legacyCompat.grpc', true],
    ['grpc', true],
    ['grpc', 50051],
    ['grpc', null],
    ['grpc.port', undefined],
    ['grpc.port', -1],
    ['grpc.port', 65_536],
    ['grpc.port', '50051'],
    ['grpc.host', ''],
    ['grpc.host', 'two words'],
    ['grpc.publicUrl', ''],
    ['grpc.userBuilder', 'anonymous'],
    ['grpc.channelOptions', null],
    ['requests.maxReferenceTasks', -1],
    ['requests.maxReferenceTasks', '20'],
    ['turns.unfinishedTurn', 'wait'],
    ['publicUrl', ''],
    ['publicUrl', 'agent.example.com'],
    ['publicUrl', 'localhost:3000'],
    ['publicUrl', '/agent'],
    ['agentCard', undefined],
    ['agentCard', null],
    ['agentCard', 'a card'],
    ['agentCard', { description: 'nameless' }],
    ['transports.jsonRpc', ''],
    ['transports.rest', '//'],
    ['transports.agentCard', true],
    ['transports.bodyLimitBytes', 0],
    ['transports.bodyLimitBytes', '10mb'],
  ];

  test.each(wrong)('refuse %s = %p, naming it, the value and the rule', (option, value) => {
    const error = refusalOf(() => resolveNested(option, value));
    expect(error.option).toBe(option);
    expect(error.code).toBe('A2A_CLUSTER_OPTIONS');
    const shown = typeof value === 'number' || typeof value === 'bigint' ? String(value) : JSON.stringify(value);
    expect(error.message).toMatch(/^A2AClusterModule option \S+ is .+: .+\.$/);
    expect(error.message).toContain(`option ${option} is ${shown}`);
    expect(error.message).not.toContain('\n');
  });

  test('refuse a heartbeat above a third of the TTL, the default one too', () => {
    const error = refusalOf(() => resolveOptions({ ...required, leases: { ttlMs: 89_999 } }));
    expect(error.option).toBe('leases.heartbeatIntervalMs');
    expect(error.message).toContain('is 30000: it must be at most a third of leases.ttlMs (89999)');
  });

  test('I5 refuse to keep events for less long than a commit may be tried again, with leases and without', () => {
    const refused = (options: Partial<A2AClusterOptions>): ClusterOptionsError => {
      return refusalOf(() => resolveOptions({ ...required, ...options }));
    };
    const times = { heartbeatIntervalMs: 1_000, ttlMs: 5_000 };
    const leased = refused({ leases: times, streams: { retentionMs: 4_999 } });
    expect(leased.option).toBe('streams.retentionMs');
    expect(leased.message).toMatch(/is 4999: it must be at least leases\.ttlMs \(5000\), .*tried again.*twice/);
    const unleased = refused({ leases: false, streams: { retentionMs: 119_999 } });
    expect(unleased.option).toBe('streams.retentionMs');
    expect(unleased.message).toMatch(/is 119999: it must be at least 120000 with leases: false, .*twice/);
  });

  test.each<[string, Partial<A2AClusterOptions>, number]>([
    ['the TTL', { leases: { ttlMs: 90_000 }, streams: { retentionMs: 90_000 } }, 90_000],
    ['120 s without leases', { leases: false, streams: { retentionMs: 120_000 } }, 120_000],
    ['the TTL by default, where that is above an hour', { leases: { ttlMs: 7_200_000 } }, 7_200_000],
    ['an hour by default elsewhere', { leases: { ttlMs: 3_600_000 } }, 3_600_000],
  ])('keep events for %s', (_what, options, retentionMs) => {
    expect(resolveOptions({ ...required, ...options }).streams.retentionMs).toBe(retentionMs);
  });

  test('refuse a sweeper without leases, and a card that nobody could follow', () => {
    for (const sweeper of [
      { intervalMs: 1 },
      { policy: 'fail' as const },
      { policy: () => ({ decision: 'leave' as const }) },
    ]) {
      const error = refusalOf(() => resolveOptions({ ...required, leases: false, sweeper }));
      expect([error.option, error.message]).toEqual(['sweeper', expect.stringContaining('nothing to sweep')]);
    }
    const { agentCard } = required;
    expect(refusalOf(() => resolveOptions({ agentCard })).option).toBe('publicUrl');
    expect(refusalOf(() => resolveOptions({ agentCard: { ...agentCard, supportedInterfaces: [] } })).option).toBe(
      'publicUrl',
    );
  });

  test('refuse gRPC beside interfaces that do not name it', () => {
    const interfaceOf = (protocolBinding: string) => ({ url: '', protocolBinding, protocolVersion: '1.0', tenant: '' });
    const withInterfaces = (...bindings: string[]): A2AClusterOptions => ({
      grpc: { port: 0 },
      agentCard: { ...required.agentCard, supportedInterfaces: bindings.map(interfaceOf) },
    });
    const error = refusalOf(() => resolveOptions(withInterfaces('JSONRPC')));
    expect(error.option).toBe('agentCard.supportedInterfaces');
    expect(error.message).toContain('is ["JSONRPC"]: with the option grpc');
    expect(() => resolveOptions(withInterfaces('JSONRPC', 'GRPC'))).not.toThrow();
  });

  test('that are missing altogether are refused as such', () => {
    expect(refusalOf(() => resolveOptions(undefined as never)).option).toBe('agentCard');
  });
});

function resolveNested(option: string, value: unknown): unknown {
  const [group, name] = option.split('.') as [string, string | undefined];
  if (group === 'transports') return resolveTransports({ [name!]: value });
  const rest = group === 'grpc' ? { port: 50_051 } : {};
  return resolveOptions({ ...required, [group]: name === undefined ? value : { ...rest, [name]: value } });
}
