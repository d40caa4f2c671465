import { Injectable, Inject } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { RunningTurns } from '../../turns/running-turns.js';
import { answeredBodyError } from './body-parser.js';
import { answerDraining, sendsMessage } from './draining.js';
import { leaveStreamsUntransformed } from './event-stream-headers.js';
import { HttpResponseReader, JSON_FORM } from './http-response.reader.js';
import type { LegacyCompat } from '../../options/legacy-compat.options.js';
import { speaksLegacy } from '../legacy/legacy-version.js';
import { recodeLegacyParams } from '../legacy/legacy-params.js';
import { OpenResponses } from '../flow/open-responses.js';
import { normalizeRequestedVersion } from '../requested-version.js';
import { withReader } from '../flow/response-flow.js';
import { answeredOddMediaType, answerInNamedMediaType } from './rest-media-type.js';
import { normalizedPath, type TransportPaths } from '../../options/transport.options.js';
import { below, type TransportName } from './transport-paths.js';
import { UnsentBytes } from '../flow/unsent-bytes.js';
import { answerUndecodableAsMalformed, notingCalls, notingErrors } from './undecodable.js';
import { ResolvedOptions } from '../../options/cluster.options.js';
import { StaticOptions } from '../../options/static.options.js';
import { A2A_REQUEST_HANDLER } from '../../protocol/request-handler.token.js';
import { userFromRequest } from './user-builder.js';

/** Hands HTTP exchanges from the controllers to the SDK's transports. */
@Injectable()
export class TransportEndpoints {
  private readonly paths: TransportPaths;
  private readonly legacyCompat: LegacyCompat;
  private readonly handlers: { jsonRpc: RequestHandler; rest: RequestHandler };

  constructor(
    @Inject(A2A_REQUEST_HANDLER) requestHandler: A2ARequestHandler,
    { userBuilder, legacyCompat }: ResolvedOptions,
    { transports }: StaticOptions,
    private readonly config: ApplicationConfig,
    private readonly running: RunningTurns,
    private readonly responses: OpenResponses,
    private readonly unsent: UnsentBytes,
  ) {
    this.paths = transports;
    this.legacyCompat = legacyCompat;
    const options = {
      requestHandler: notingCalls(recodeLegacyParams(requestHandler)),
      userBuilder: notingErrors(userBuilder ?? userFromRequest),
    };
    this.handlers = {
      jsonRpc: jsonRpcHandler({ ...options, legacyCompat: { enabled: legacyCompat.jsonRpc } }),
      rest: restHandler({ ...options, legacyCompat: { enabled: legacyCompat.rest } }),
    };
  }

  handle(transport: TransportName, req: Request, res: Response, next: NextFunction): void {
    normalizeRequestedVersion(req);
    const isLegacy = this.legacyCompat[transport] && speaksLegacy(req);
    const form = transport === 'rest' && isLegacy ? 'legacyRest' : transport;
    const reader = new HttpResponseReader(res, this.unsent, isLegacy ? undefined : JSON_FORM);
    if (form === 'rest') answerInNamedMediaType(req, res);
    if (answeredBodyError(form, req, res)) return;
    if (form === 'rest' && answeredOddMediaType(req, res)) return;
    if (this.running.isDraining && sendsMessage(req)) return answerDraining(form, req, res);
    this.responses.add(res);
    leaveStreamsUntransformed(res);
    const path = this.paths[transport];
    const url = req.url;
    // The SDK's routers expect to be mounted: they match what stands behind the path they are at.
    req.url = below(url, globalPrefix(this.config), path === false ? '' : path) ?? url;
    const handOver = (): void =>
      void this.handlers[transport](req, res, (error?: unknown) => {
        req.url = url;
        next(error);
      });
    withReader(reader, () => answerUndecodableAsMalformed(form, res, handOver));
  }
}

/** The app's global prefix as it stands in URLs. */
export const globalPrefix = (config: ApplicationConfig): string => normalizedPath(config.getGlobalPrefix());

/** The prefix of one of our paths: apps may exclude paths, or what lies below them, from it. */
export function prefixOf(config: ApplicationConfig, path: string): string {
  const { exclude = [] } = config.getGlobalPrefixOptions();
  return exclude.some(({ pathRegex }) => pathRegex.test(path) || pathRegex.test(`${path}/tasks`))
    ? ''
    : globalPrefix(config);
}
