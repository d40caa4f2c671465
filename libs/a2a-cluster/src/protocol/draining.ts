import { A2A_CONTENT_TYPE } from '@a2a-js/sdk';
import { A2A_ERROR_CODE, A2AError, toRestErrorBody } from '@a2a-js/sdk/errors';
import type { Request, Response } from 'express';
import { ReplicaDrainingError } from '../errors/replica-draining.error.js';

/** By then another replica has the traffic, or this one is back. */
const RETRY_AFTER_SECONDS = '1';

/** Whether a request sends a message, which a replica that shuts down takes no more of. */
export function sendsMessage(req: Request): boolean {
  const { method } = (req.body ?? {}) as { method?: unknown };
  return /\/message:(send|stream)\/?(\?|$)/.test(req.url) || /^Send(Streaming)?Message$/.test(String(method));
}

/** 503 in the transport's form: load balancers and clients try another replica. */
export function answerDraining(transport: 'jsonRpc' | 'rest', req: Request, res: Response): void {
  const { message } = new ReplicaDrainingError();
  res.status(503).setHeader('Retry-After', RETRY_AFTER_SECONDS);
  if (transport === 'rest') {
    res.type(A2A_CONTENT_TYPE).json(toRestErrorBody(new A2AError(message), 503));
    return;
  }
  const { id = null } = (req.body ?? {}) as { id?: unknown };
  res.json({ jsonrpc: '2.0', id, error: { code: A2A_ERROR_CODE.INTERNAL_ERROR, message } });
}
