import { A2A_CONTENT_TYPE } from '@a2a-js/sdk';
import { A2A_ERROR_CODE, RequestMalformedError, toRestErrorBody } from '@a2a-js/sdk/errors';
import express, { type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import { below, type TransportPaths } from './transport-paths.js';

/**
 * Parses the bodies of our paths ahead of Nest's parser, which stops at 100 kB and answers in a form of its own. What
 * cannot be parsed is answered as the transport answers errors. `prefix` is read per request: apps set it late.
 */
export function a2aBodyParser({ jsonRpc, rest, bodyLimitBytes }: TransportPaths, prefix: () => string): RequestHandler {
  const parse = express.json({
    limit: bodyLimitBytes,
    type: ['application/json', A2A_CONTENT_TYPE],
    strict: false,
  });
  const serves = (path: string | false, url: string): boolean =>
    path !== false && below(url, prefix(), path) !== undefined;
  return function a2aBodyParserMiddleware(req, res, next) {
    const isRest = serves(rest, req.url);
    if (!isRest && !serves(jsonRpc, req.url)) return next();
    parse(req, res, (error?: unknown) => {
      if (!error) return next();
      (isRest ? answerRest : answerJsonRpc)(error, res);
    });
  };
}

const isTooLarge = (error: unknown): boolean => (error as { type?: string }).type === 'entity.too.large';

function explain(error: unknown): string {
  if (isTooLarge(error)) return `The request body is larger than ${(error as { limit?: number }).limit} bytes.`;
  return error instanceof SyntaxError ? 'Invalid JSON payload.' : 'The request body cannot be read.';
}

function answerJsonRpc(error: unknown, res: Response): void {
  const code = error instanceof SyntaxError ? A2A_ERROR_CODE.PARSE_ERROR : A2A_ERROR_CODE.INVALID_REQUEST;
  res
    .status(isTooLarge(error) ? 413 : 200)
    .json({ jsonrpc: '2.0', id: null, error: { code, message: explain(error) } });
}

function answerRest(error: unknown, res: Response): void {
  const status = isTooLarge(error) ? 413 : 400;
  res
    .status(status)
    .type(A2A_CONTENT_TYPE)
    .json(toRestErrorBody(new RequestMalformedError(explain(error)), status));
}

/** An Express handler's arguments. */
export type Exchange = [req: Request, res: Response, next: NextFunction];
