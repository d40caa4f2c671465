import { AgentCard } from '@a2a-js/sdk';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { agentCardHandler } from '@a2a-js/sdk/server/express';
import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { NextFunction, Request, Response } from 'express';
import { ClusterOptionsError } from '../../errors/cluster-options.error.js';
import { ResolvedOptions } from '../../options/cluster.options.js';
import { StaticOptions } from '../../options/static.options.js';
import { A2A_REQUEST_HANDLER } from '../../protocol/request-handler.token.js';

/** Serves the agent's card at the root: outside of the global prefix and of guards, behind the app's own middleware. */
@Injectable()
export class AgentCardRoute {
  constructor(
    private readonly host: HttpAdapterHost,
    @Inject(A2A_REQUEST_HANDLER) private readonly requestHandler: A2ARequestHandler,
    private readonly parts: StaticOptions,
    private readonly options: ResolvedOptions,
  ) {}

  /** Throws {@link ClusterOptionsError} where the app's HTTP adapter cannot serve what is on. */
  serve(): void {
    const { transports } = this.parts;
    // An application context has no adapter.
    const adapter = this.host.httpAdapter;
    const type = adapter?.getType?.();
    if (!type) return;
    const served = [transports.jsonRpc, transports.rest, transports.agentCard].some((path) => path !== false);
    if (type !== 'express' && served) {
      throw ClusterOptionsError.rule(
        'transports',
        type,
        "the SDK's transports are made for Express: use @nestjs/platform-express, or set jsonRpc, rest and agentCard to false",
      );
    }
    if (transports.agentCard === false) return;
    // As far as this replica knows: what it serves does not change while it runs.
    const lastModified = new Date().toUTCString();
    adapter.use(transports.agentCard, (_req: Request, res: Response, next: NextFunction) => {
      res.setHeader('Last-Modified', lastModified);
      next();
    });
    // The SDK writes what it is given as JSON for version 1.0, and reads the card itself for 0.3.
    const agentCardProvider = async (): Promise<AgentCard> => {
      const card = await this.requestHandler.getAgentCard();
      return { ...card, toJSON: () => AgentCard.toJSON(card) } as AgentCard;
    };
    const enabled = Object.values(this.options.legacyCompat).some((isServed) => isServed);
    adapter.use(transports.agentCard, agentCardHandler({ agentCardProvider, legacyCompat: { enabled } }));
  }
}
