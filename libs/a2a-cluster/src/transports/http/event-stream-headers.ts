import type { Response } from 'express';

/**
 * Keeps middleware and proxies from transforming event streams: one that compresses them holds events back until its
 * buffer is full. The SDK sets `no-cache` on event streams only.
 */
export function leaveStreamsUntransformed(res: Response): void {
  const setHeader = res.setHeader.bind(res);
  res.setHeader = (name, value) =>
    setHeader(name, name.toLowerCase() === 'cache-control' && value === 'no-cache' ? 'no-cache, no-transform' : value);
}
