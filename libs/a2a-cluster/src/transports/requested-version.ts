import { A2A_VERSION_HEADER } from '@a2a-js/sdk';
import type { Request } from 'express';

/**
 * Puts the protocol version that a client asks for where the SDK looks for it, in the form that it compares. A2A 3.6 has
 * it in a header or in the query, and patch numbers do not count.
 */
export function normalizeRequestedVersion(req: Request): void {
  const asked = req.get(A2A_VERSION_HEADER) ?? req.query[A2A_VERSION_HEADER];
  if (typeof asked !== 'string') return;
  req.headers[A2A_VERSION_HEADER.toLowerCase()] = withoutPatch(asked);
}

/** A version as it counts, `1.0` of `1.0.3`. */
export const withoutPatch = (version: string): string => version.trim().replace(/^(\d+\.\d+)\.\d+$/, '$1');
