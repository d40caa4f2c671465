import { All, Controller, Inject, Next, Req, Res, type Type, UseGuards, VERSION_NEUTRAL } from '@nestjs/common';
import type { NextFunction, Request, Response } from 'express';
import { TransportEndpoints } from './transport-endpoints.js';
import type { GuardInput } from '../../options/static.options.js';
import type { TransportPaths } from '../../options/transport.options.js';

/**
 * Controllers for the transports that are on, so that guards, middleware and `req.user` work as everywhere in Nest.
 * Made per module instance, since paths and guards are fixed in decorators.
 */
export function transportControllers(paths: TransportPaths, guards: readonly GuardInput[]): Type[] {
  const controllers: Type[] = [];
  if (paths.jsonRpc !== false) controllers.push(jsonRpcController(paths.jsonRpc));
  if (paths.rest !== false) controllers.push(restController(paths.rest));
  if (guards.length > 0) for (const controller of controllers) UseGuards(...guards)(controller);
  return controllers;
}

function jsonRpcController(path: string): Type {
  @Controller({ path, version: VERSION_NEUTRAL })
  class A2AJsonRpcController {
    constructor(@Inject(TransportEndpoints) private readonly endpoints: TransportEndpoints) {}

    @All()
    handle(@Req() req: Request, @Res() res: Response, @Next() next: NextFunction): void {
      this.endpoints.handle('jsonRpc', req, res, next);
    }
  }
  return A2AJsonRpcController;
}

function restController(path: string): Type {
  @Controller({ path, version: VERSION_NEUTRAL })
  class A2ARestController {
    constructor(@Inject(TransportEndpoints) private readonly endpoints: TransportEndpoints) {}

    @All('*operation')
    handle(@Req() req: Request, @Res() res: Response, @Next() next: NextFunction): void {
      this.endpoints.handle('rest', req, res, next);
    }
  }
  return A2ARestController;
}
