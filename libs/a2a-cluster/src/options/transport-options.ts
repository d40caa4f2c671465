import { requireWhole, withoutUndefined } from './option-rules.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { anonymousCaller, type GrpcOptions } from './grpc-options.js';
import type { LegacyCompat } from './legacy-compat.js';
import { normalizedPath, type TransportPaths } from './transport-paths.js';

const TRANSPORT_DEFAULTS: TransportPaths = {
  jsonRpc: '/a2a/jsonrpc',
  rest: '/a2a/rest',
  agentCard: '/.well-known/agent-card.json',
  bodyLimitBytes: 10 * 1024 * 1024,
};
const GRPC_DEFAULTS = { host: '0.0.0.0', userBuilder: anonymousCaller, channelOptions: {} };

/** The transports with every default in place; `transports` is static, so it is checked where the module is made. */
export function resolveTransports(given: Partial<TransportPaths> = {}): TransportPaths {
  const paths = { ...TRANSPORT_DEFAULTS, ...withoutUndefined(given) };
  for (const name of ['jsonRpc', 'rest', 'agentCard'] as const) {
    const path: unknown = paths[name];
    if (path === false) continue;
    if (typeof path !== 'string' || normalizedPath(path) === '') {
      throw ClusterOptionsError.rule(`transports.${name}`, path, 'it must be a path such as /a2a, or false');
    }
    paths[name] = normalizedPath(path);
  }
  requireWhole('transports.bodyLimitBytes', paths.bodyLimitBytes, 1, Number.MAX_SAFE_INTEGER);
  return paths;
}

/** The gRPC transport with every default in place. `credentials` are checked where the package that makes them is. */
export function resolveGrpc(given: Partial<GrpcOptions> | false | undefined): GrpcOptions | false {
  if (given === undefined || given === false) return false;
  if (typeof given !== 'object' || given === null) {
    throw ClusterOptionsError.rule('grpc', given, 'it must be false, or an object with at least a port');
  }
  const grpc = { ...GRPC_DEFAULTS, ...withoutUndefined(given) } as GrpcOptions;
  requireWhole('grpc.port', grpc.port, 0, 65_535);
  requireWord('grpc.host', grpc.host, 'it must be an address to listen on, such as 0.0.0.0');
  if (grpc.publicUrl !== undefined) {
    requireWord('grpc.publicUrl', grpc.publicUrl, 'it must be a gRPC target such as agent.example.com:443');
  }
  if (typeof grpc.userBuilder !== 'function') {
    throw ClusterOptionsError.rule('grpc.userBuilder', grpc.userBuilder, 'it must be a function that says who calls');
  }
  if (typeof grpc.channelOptions !== 'object' || grpc.channelOptions === null) {
    const rule = "it must be an object of a gRPC server's options";
    throw ClusterOptionsError.rule('grpc.channelOptions', grpc.channelOptions, rule);
  }
  return grpc;
}

/** Where version 0.3 is served. A transport that is off can be asked for only by mistake. */
export function resolveLegacyCompat(
  given: boolean | Partial<LegacyCompat> | undefined,
  { jsonRpc, rest }: TransportPaths,
  grpc: GrpcOptions | false,
): LegacyCompat {
  const on: LegacyCompat = { jsonRpc: jsonRpc !== false, rest: rest !== false, grpc: grpc !== false };
  if (given === true) return on;
  if (typeof (given ?? {}) !== 'object' && given !== false) {
    throw ClusterOptionsError.rule('legacyCompat', given, 'it must be true, false, or say so for each transport');
  }
  const legacyCompat = { jsonRpc: false, rest: false, grpc: false, ...(given !== false && withoutUndefined(given)) };
  for (const [name, value] of Object.entries(legacyCompat) as [keyof LegacyCompat, unknown][]) {
    const option = `legacyCompat.${name}`;
    if (!(name in on)) throw ClusterOptionsError.rule(option, value, 'the transports are jsonRpc, rest and grpc');
    if (typeof value !== 'boolean') throw ClusterOptionsError.rule(option, value, 'it must be true or false');
    if (value && !on[name]) throw ClusterOptionsError.rule(option, value, 'this transport is off');
  }
  return legacyCompat;
}

function requireWord(option: string, value: unknown, rule: string): void {
  if (typeof value !== 'string' || !/^\S+$/.test(value)) throw ClusterOptionsError.rule(option, value, rule);
}
