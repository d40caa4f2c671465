import type { Request } from 'express';

/** On which transports clients of protocol version 0.3 are served too, by the SDK's compatibility layer. */
export interface LegacyCompat {
  jsonRpc: boolean;
  rest: boolean;
  grpc: boolean;
}

const BINDINGS: Readonly<Record<keyof LegacyCompat, string>> = { jsonRpc: 'JSONRPC', rest: 'HTTP+JSON', grpc: 'GRPC' };

/** The protocol bindings that clients of version 0.3 are served on, as agent cards name them. */
export const legacyBindings = (legacyCompat: LegacyCompat): string[] =>
  (Object.keys(BINDINGS) as (keyof LegacyCompat)[]).filter((name) => legacyCompat[name]).map((name) => BINDINGS[name]);

/** Whether a version is one before 1.0. By the protocol a call without a version speaks 0.3. */
export const isLegacyVersion = (version: string | undefined): boolean => !version || version.startsWith('0.');

/** Whether a request comes from a client of version 0.3, at a path where both are served. */
export const speaksLegacy = (req: Request): boolean => isLegacyVersion(req.header('A2A-Version'));
