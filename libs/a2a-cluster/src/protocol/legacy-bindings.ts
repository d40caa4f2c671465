import type { LegacyCompat } from '../options/legacy-compat.options.js';

const BINDINGS: Readonly<Record<keyof LegacyCompat, string>> = { jsonRpc: 'JSONRPC', rest: 'HTTP+JSON', grpc: 'GRPC' };

/** The protocol bindings that clients of version 0.3 are served on, as agent cards name them. */
export const legacyBindings = (legacyCompat: LegacyCompat): string[] =>
  (Object.keys(BINDINGS) as (keyof LegacyCompat)[]).filter((name) => legacyCompat[name]).map((name) => BINDINGS[name]);
