import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { requireWhole, withoutUndefined } from './rules.js';

/** Where the agent is served over HTTP, and how large a request may be. */
export interface TransportPaths {
  /** The path of JSON-RPC, below the app's global prefix. `false`: it is not served. Default: `/a2a/jsonrpc`. */
  jsonRpc: string | false;
  /** The path of HTTP+JSON, below the app's global prefix. `false`: it is not served. Default: `/a2a/rest`. */
  rest: string | false;
  /**
   * The path of the agent card. It is served at the root, outside of the global prefix and of guards, where clients
   * look for it. `false`: it is not served. Default: `/.well-known/agent-card.json`, as the protocol says.
   */
  agentCard: string | false;
  /**
   * The largest body of a request, in bytes, over HTTP and gRPC. A whole number of at least 1. Default: 10 MiB, since
   * Nest's own 100 kB are too little for files in messages.
   */
  bodyLimitBytes: number;
}

const TRANSPORT_DEFAULTS: TransportPaths = {
  jsonRpc: '/a2a/jsonrpc',
  rest: '/a2a/rest',
  agentCard: '/.well-known/agent-card.json',
  bodyLimitBytes: 10 * 1024 * 1024,
};

/**
 * The transports with their defaults. They are static, so this runs where the module is made. Throws
 * {@link ClusterOptionsError}.
 */
export function resolveTransports(given: Partial<TransportPaths> = {}): TransportPaths {
  const transports: TransportPaths = { ...TRANSPORT_DEFAULTS, ...withoutUndefined(given) };
  transports.jsonRpc = servedPath('transports.jsonRpc', transports.jsonRpc);
  transports.rest = servedPath('transports.rest', transports.rest);
  transports.agentCard = servedPath('transports.agentCard', transports.agentCard);
  requireWhole('transports.bodyLimitBytes', transports.bodyLimitBytes, 1, Number.MAX_SAFE_INTEGER);
  return transports;
}

function servedPath(option: string, path: unknown): string | false {
  if (path === false) return false;
  if (typeof path === 'string' && normalizedPath(path) !== '') return normalizedPath(path);
  throw ClusterOptionsError.rule(option, path, 'it must be a path such as /a2a, or false');
}

/** A path with one slash in front and none at the end; '' stays ''. */
export const normalizedPath = (path: string): string => {
  const trimmed = path.replace(/^\/+|\/+$/g, '');
  return trimmed ? `/${trimmed}` : '';
};
