import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import type { GrpcOptions } from './grpc.options.js';
import { withoutUndefined } from './rules.js';
import type { TransportPaths } from './transport.options.js';

/**
 * On which transports clients of protocol version 0.3 are served too, by the SDK's compatibility layer. A transport
 * that is off cannot be true here.
 */
export interface LegacyCompat {
  /** Whether JSON-RPC serves them. Default: false. */
  jsonRpc: boolean;
  /** Whether HTTP+JSON serves them. Default: false. */
  rest: boolean;
  /** Whether gRPC serves them. Default: false. */
  grpc: boolean;
}

const LEGACY_DEFAULTS: LegacyCompat = {
  jsonRpc: false,
  rest: false,
  grpc: false,
};

/**
 * Where version 0.3 is served. A transport that is off can be asked for only by mistake. Throws
 * {@link ClusterOptionsError}.
 */
export function resolveLegacyCompat(
  given: boolean | Partial<LegacyCompat> | undefined,
  { jsonRpc, rest }: TransportPaths,
  grpc: GrpcOptions | false,
): LegacyCompat {
  const on: LegacyCompat = { jsonRpc: jsonRpc !== false, rest: rest !== false, grpc: grpc !== false };
  if (given === true) return on;
  if (given === false) return LEGACY_DEFAULTS;
  if (typeof (given ?? {}) !== 'object') {
    throw ClusterOptionsError.rule('legacyCompat', given, 'it must be true, false, or say so for each transport');
  }
  const legacyCompat: LegacyCompat = { ...LEGACY_DEFAULTS, ...withoutUndefined(given) };
  for (const [name, value] of Object.entries(legacyCompat) as [keyof LegacyCompat, unknown][]) {
    const option = `legacyCompat.${name}`;
    if (!(name in on)) throw ClusterOptionsError.rule(option, value, 'the transports are jsonRpc, rest and grpc');
    if (typeof value !== 'boolean') throw ClusterOptionsError.rule(option, value, 'it must be true or false');
    if (value && !on[name]) throw ClusterOptionsError.rule(option, value, 'this transport is off');
  }
  return legacyCompat;
}
