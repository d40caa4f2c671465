import type { TransportPaths } from '../options/transport.options.js';

/**
 * The addresses of the agent. They are read at each use: the app's global prefix is set late, and gRPC's port is
 * known once it listens.
 */
export abstract class AgentEndpoints {
  abstract readonly publicUrl: string | undefined;
  abstract readonly transports: TransportPaths;
  /** The bindings that clients of version 0.3 are served on. */
  abstract readonly legacyBindings: string[];
  /** The address of gRPC; undefined if it is off. */
  abstract readonly grpc: string | undefined;
  /** The app's global prefix, as far as it is in front of this path. */
  abstract prefixOf(path: string): string;
}
