import { Server } from 'node:http';
import { Logger } from '@nestjs/common';
import type { BeforeApplicationShutdown, OnApplicationBootstrap, OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import type { HttpAdapterHost } from '@nestjs/core';
import { AgentCard } from '@a2a-js/sdk';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { agentCardHandler } from '@a2a-js/sdk/server/express';
import type { NextFunction, Request, Response } from 'express';
import { requireSchema } from './schema-check.js';
import type { DatabaseAccess } from '../postgres/connection/database-access.js';
import { within } from '../async/late-timer.js';
import { messageOf } from '../errors/described.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import type { Heartbeat } from '../leases/heartbeat.js';
import type { LeaseStore } from '../leases/lease-store.js';
import { letConnectionsEnd } from '../transports/http/draining.js';
import type { GrpcServer } from '../transports/grpc/grpc.server.js';
import type { LegacyCompat } from '../options/legacy-compat.options.js';
import type { OpenResponses } from '../transports/flow/open-responses.js';
import type { TransportPaths } from '../options/transport.options.js';
import type { PushDispatcher } from '../push/push-dispatcher.js';
import { racePoint } from '../race-points/race-points.js';
import type { SweepTrigger } from '../recovery/sweep-trigger.js';
import type { UnleasedTasksLook } from '../recovery/unleased-tasks.look.js';
import type { Poller } from '../streams/poller.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import type { ExecutorProvider } from '../turns/executor/executor-provider.js';
import type { TurnDrain } from '../turns/turn-drain.js';

/** How long the loops may take to finish what they are at when the app stops, in ms. */
const LOOPS_MS = 1_000;

/** The same for the end of streams and of the lease store. */
const STREAMS_MS = 250;

/** What starts and stops with the app. */
export interface LifecycleParts {
  database: DatabaseAccess;
  executor: ExecutorProvider;
  adapterHost: HttpAdapterHost;
  requestHandler: A2ARequestHandler;
  transports: TransportPaths;
  legacyCompat: LegacyCompat;
  drain: TurnDrain;
  responses: OpenResponses;
  /** None where gRPC is off. */
  grpc: GrpcServer | null;
  push: PushDispatcher;
  stream: TaskEventStream;
  poller: Poller;
  leases: LeaseStore;
  /** None where leases are off. */
  heartbeat: Heartbeat | null;
  sweep: SweepTrigger | null;
  unleased: UnleasedTasksLook | null;
}

/**
 * The only class with Nest's lifecycle hooks. Everything that touches the database is done by the end of
 * beforeApplicationShutdown: after it TypeORM closes the DataSource.
 */
export class A2AClusterLifecycle
  implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown
{
  private readonly logger = new Logger('A2AClusterLifecycle');

  constructor(private readonly parts: LifecycleParts) {}

  async onModuleInit(): Promise<void> {
    this.parts.executor.verify();
    const { used } = this.parts.database;
    if (used) await requireSchema(used.dataSource);
    this.serveAgentCard();
  }

  async onApplicationBootstrap(): Promise<void> {
    const { poller, heartbeat, sweep, unleased, grpc } = this.parts;
    await this.parts.database.used?.open();
    // Before the first request: whoever subscribes then hears of other replicas at once.
    await poller.runOnce();
    await grpc?.listen();
    poller.start();
    heartbeat?.start();
    sweep?.start();
    unleased?.start();
  }

  /** Drains while the transports still serve, renewals go on, and streams are told how their turns end. */
  async onModuleDestroy(): Promise<void> {
    const server: unknown = this.parts.adapterHost.httpAdapter?.getHttpServer?.();
    if (server instanceof Server) letConnectionsEnd(server as Server);
    await this.parts.drain.run();
    racePoint('shutdown.drained');
  }

  async beforeApplicationShutdown(): Promise<void> {
    const { poller, heartbeat, sweep, unleased, stream, leases, responses, grpc, push, database } = this.parts;
    database.used?.closing.abort();
    const loops = [sweep, poller, heartbeat, push, unleased].map((loop) => loop?.stop() ?? Promise.resolve());
    await this.step('its loops', LOOPS_MS, Promise.all(loops));
    await this.step('its streams', STREAMS_MS, stream.close());
    await Promise.all([responses.end(), grpc?.close()]);
    await this.step('its leases', STREAMS_MS, leases.close());
    await database.used?.close();
    racePoint('shutdown.closed');
  }

  /** A step of the shutdown that may need the database, which may hang: what is not done in time is broken off. */
  private async step(what: string, ms: number, work: Promise<unknown>): Promise<void> {
    const done = work.catch((error: unknown) => this.logger.warn(`Closing ${what} failed: ${messageOf(error)}`));
    if (!(await within(ms, done))) this.logger.warn(`Closing ${what} took longer than ${ms} ms and is broken off.`);
  }

  /** At the root, outside of the global prefix and of guards, behind the app's own middleware (CORS). */
  private serveAgentCard(): void {
    const { adapterHost, requestHandler, transports, legacyCompat } = this.parts;
    // An application context has no adapter.
    const type = adapterHost.httpAdapter?.getType?.();
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
    adapterHost.httpAdapter.use(transports.agentCard, (_req: Request, res: Response, next: NextFunction) => {
      res.setHeader('Last-Modified', lastModified);
      next();
    });
    // The SDK writes what it is given as JSON for version 1.0, and reads the card itself for 0.3.
    const agentCardProvider = async (): Promise<AgentCard> => {
      const card = await requestHandler.getAgentCard();
      return { ...card, toJSON: () => AgentCard.toJSON(card) } as AgentCard;
    };
    const enabled = Object.values(legacyCompat).some((served) => served);
    adapterHost.httpAdapter.use(
      transports.agentCard,
      agentCardHandler({ agentCardProvider, legacyCompat: { enabled } }),
    );
  }
}
