import { A2A_ERROR_CODE, A2AError } from '@a2a-js/sdk/errors';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Request, Response } from 'express';
import { ReplicaDrainingError } from '../../errors/replica-draining.error.js';
import { type AnswerForm, answerRestError } from './rest-errors.js';

/** By then another replica has the traffic, or this one is back. */
const RETRY_AFTER_SECONDS = '1';

/** In versions 1.0 and 0.3. */
const SENDING_METHODS = ['SendMessage', 'SendStreamingMessage', 'message/send', 'message/stream'];

/** Whether a request sends a message, which a replica that shuts down takes no more of. */
export function sendsMessage(req: Request): boolean {
  const { method } = (req.body ?? {}) as { method?: unknown };
  return /\/message:(send|stream)\/?(\?|$)/.test(req.url) || SENDING_METHODS.includes(String(method));
}

/** Status and header of an answer after which the client should ask another replica. */
export function answerUnavailable(res: Response): void {
  res.status(503);
  res.setHeader('Retry-After', RETRY_AFTER_SECONDS);
}

/** 503 in the transport's form: load balancers and clients try another replica. */
export function answerDraining(form: AnswerForm, req: Request, res: Response): void {
  const { message } = new ReplicaDrainingError();
  answerUnavailable(res);
  const code = A2A_ERROR_CODE.INTERNAL_ERROR;
  if (form !== 'jsonRpc') return void answerRestError(form, 503, new A2AError(message), code, res);
  const { id = null } = (req.body ?? {}) as { id?: unknown };
  res.json({ jsonrpc: '2.0', id, error: { code, message } });
}

/**
 * From now on each answer is the last of its connection. A server that closes waits for connections that are in use, and a
 * client that keeps one in use would keep the process from ending; on a new one it reaches a replica that stays.
 */
export function letConnectionsEnd(server: Server): void {
  server.prependListener('request', (_req: IncomingMessage, res: ServerResponse) => {
    res.setHeader('Connection', 'close');
  });
}
