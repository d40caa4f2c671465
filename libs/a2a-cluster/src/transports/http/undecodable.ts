import { AsyncLocalStorage } from 'node:async_hooks';
import { A2A_ERROR_CODE, RequestMalformedError } from '@a2a-js/sdk/errors';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import type { UserBuilder } from '@a2a-js/sdk/server/express';
import type { Response } from 'express';
import { beforeCalls } from './call-hooks.js';
import { type AnswerForm, answerRestError } from './rest-errors.js';

/** How far an exchange has come. */
interface Exchange {
  /** Whether the request could be read, so that what fails now is the server's fault. */
  decoded: boolean;
}

const exchanges = new AsyncLocalStorage<Exchange>();

const note = (): void => {
  const exchange = exchanges.getStore();
  if (exchange) exchange.decoded = true;
};

/** The answer to a request with a value that no codec can read. */
export const MALFORMED = new RequestMalformedError('The request cannot be read: some value in it is not of its type.');

/**
 * Runs the SDK's transport. Its codecs throw on some values that are not of their type, and it takes any such error for
 * the server's: as long as nothing has reached the request handler, it is the request that is malformed.
 */
export function answerUndecodableAsMalformed<T>(form: AnswerForm, res: Response, run: () => T): T {
  const exchange: Exchange = { decoded: false };
  const json = res.json.bind(res);
  res.json = (body) => {
    if (exchange.decoded || !isInternalError(form, res, body)) return json(body);
    exchange.decoded = true;
    const code = A2A_ERROR_CODE.INVALID_PARAMS;
    if (form !== 'jsonRpc') return answerRestError(form, 400, MALFORMED, code, res);
    return json({ ...(body as object), error: { code, message: MALFORMED.message } });
  };
  return exchanges.run(exchange, run);
}

function isInternalError(form: AnswerForm, { statusCode }: Response, body: unknown): boolean {
  if (form !== 'jsonRpc') return statusCode === 500;
  return (body as { error?: { code?: unknown } } | null)?.error?.code === A2A_ERROR_CODE.INTERNAL_ERROR;
}

/** The request handler, each call of which tells that the request could be read. */
export const notingCalls = (handler: A2ARequestHandler): A2ARequestHandler =>
  beforeCalls(handler, (name, args) => {
    // The SDK asks for the card before it reads the request.
    if (name !== 'getAgentCard') note();
    return args;
  });

/** The user builder, whose errors are not the request's. */
export const notingErrors =
  (build: UserBuilder): UserBuilder =>
  async (req) => {
    try {
      return await build(req);
    } catch (error) {
      note();
      throw error;
    }
  };
