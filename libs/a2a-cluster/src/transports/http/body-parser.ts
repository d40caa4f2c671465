import { finished } from 'node:stream';
import { A2A_CONTENT_TYPE } from '@a2a-js/sdk';
import { A2A_ERROR_CODE, RequestMalformedError } from '@a2a-js/sdk/errors';
import express, { type Request, type RequestHandler, type Response } from 'express';
import { hasMoreValues } from './json-values.js';
import { speaksLegacy } from '../legacy/legacy-version.js';
import { isHarmless, MAX_DEPTH } from '../parsed-json.js';
import { type AnswerForm, answerRestError } from './rest-errors.js';
import type { TransportPaths } from '../../options/transport.options.js';
import { transportAt, type TransportName } from './transport-paths.js';
import { UnfitBodyError } from '../../errors/unfit-body.error.js';

/** Why a request's body could not be parsed; the controllers answer it, behind the app's guards and CORS. */
const errors = new WeakMap<Request, unknown>();

/**
 * Parses the bodies of our paths ahead of Nest's parser, which stops at 100 kB and answers in a form of its own. What
 * cannot be parsed is passed on, read to its end, so that Nest's parser leaves it alone. `prefix` is read per request:
 * apps set it late.
 */
export function a2aBodyParser(
  paths: TransportPaths,
  prefix: () => string,
  legacyRest: boolean,
  maxValues: number,
): RequestHandler {
  const parse = express.json({
    limit: paths.bodyLimitBytes,
    type: ['application/json', A2A_CONTENT_TYPE],
    strict: false,
    verify: (_req, _res, body) => {
      if (!hasMoreValues(body, maxValues)) return;
      throw new UnfitBodyError(`The request body holds more than ${maxValues} JSON values.`);
    },
  });
  return function a2aBodyParserMiddleware(req, res, next) {
    const transport = transportAt(paths, prefix(), req.url);
    if (!transport) return next();
    parse(req, res, (error?: unknown) => {
      // Some clients of 0.3 send null where it has no body.
      if (req.body === null && legacyRest && speaksLegacy(req)) req.body = {};
      error ??= unfit(transport, req.body);
      if (!error) return next();
      errors.set(req, error);
      req.resume();
      finished(req, { writable: false }, () => next());
    });
  };
}

/** Answers a request whose body could not be parsed as its transport answers errors. False if it could. */
export function answeredBodyError(form: AnswerForm, req: Request, res: Response): boolean {
  const error = errors.get(req);
  if (error === undefined) return false;
  const message = explain(error);
  const code = error instanceof SyntaxError ? A2A_ERROR_CODE.PARSE_ERROR : A2A_ERROR_CODE.INVALID_REQUEST;
  if (form === 'jsonRpc') {
    res.status(isTooLarge(error) ? 413 : 200).json({ jsonrpc: '2.0', id: null, error: { code, message } });
  } else {
    answerRestError(form, isTooLarge(error) ? 413 : 400, new RequestMalformedError(message), code, res);
  }
  return true;
}

const isTooLarge = (error: unknown): boolean => (error as { type?: string }).type === 'entity.too.large';

function explain(error: unknown): string {
  if (isTooLarge(error)) return `The request body is larger than ${(error as { limit?: number }).limit} bytes.`;
  if (error instanceof UnfitBodyError) return error.message;
  return error instanceof SyntaxError ? 'Invalid JSON payload.' : 'The request body cannot be read.';
}

function unfit(transport: TransportName, body: unknown): UnfitBodyError | undefined {
  // JSON-RPC says itself what is no call.
  if (transport === 'rest' && body !== undefined && (typeof body !== 'object' || body === null)) {
    return new UnfitBodyError('The request body is not a JSON object.');
  }
  return isHarmless(body)
    ? undefined
    : new UnfitBodyError(`The request body is nested deeper than ${MAX_DEPTH} levels.`);
}
