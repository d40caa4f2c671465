import { Server } from 'node:http';
import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { OpenResponses } from './flow/open-responses.js';
import { GrpcServer } from './grpc/grpc.server.js';
import { GrpcServices } from './grpc/grpc.services.js';
import { AgentCardRoute } from './http/agent-card.route.js';
import { letConnectionsEnd } from './http/draining.js';

/** The ways in which clients reach this replica, from its boot to its shutdown. */
@Injectable()
export class ReplicaTransports {
  constructor(
    private readonly host: HttpAdapterHost,
    private readonly agentCard: AgentCardRoute,
    private readonly grpc: GrpcServer,
    private readonly grpcServices: GrpcServices,
    private readonly responses: OpenResponses,
  ) {}

  /** Adds what they serve beside Nest's controllers. */
  serve(): void {
    this.agentCard.serve();
    this.grpcServices.serve();
  }

  /** Begins to listen for gRPC; for HTTP the app does that. */
  listen(): Promise<void> {
    return this.grpc.listen();
  }

  /** Lets the connections of clients end with what they are at: the replica shuts down. */
  drain(): void {
    const server: unknown = this.host.httpAdapter?.getHttpServer?.();
    if (server instanceof Server) letConnectionsEnd(server as Server);
  }

  /** Waits until the answers are written, and cuts off readers that do not read. */
  async close(): Promise<void> {
    await Promise.all([this.responses.end(), this.grpc.close()]);
  }
}
