import { Injectable } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { ResolvedOptions } from '../options/cluster.options.js';
import { StaticOptions } from '../options/static.options.js';
import type { TransportPaths } from '../options/transport.options.js';
import { AgentEndpoints } from '../protocol/agent-endpoints.js';
import { legacyBindings } from '../protocol/legacy-bindings.js';
import { A2AGrpcServer } from './grpc/a2a-grpc.server.js';
import { prefixOf } from './http/transport-endpoints.js';

/** The addresses at which this replica serves the agent. */
@Injectable()
export class ServedEndpoints extends AgentEndpoints {
  override readonly publicUrl: string | undefined;
  override readonly transports: TransportPaths;
  override readonly legacyBindings: string[];

  constructor(
    private readonly options: ResolvedOptions,
    { transports }: StaticOptions,
    private readonly config: ApplicationConfig,
    private readonly grpcServer: A2AGrpcServer,
  ) {
    super();
    this.publicUrl = options.publicUrl;
    this.transports = transports;
    this.legacyBindings = legacyBindings(options.legacyCompat);
  }

  override get grpc(): string | undefined {
    const { grpc } = this.options;
    if (!grpc) return undefined;
    if (grpc.publicUrl !== undefined || !this.publicUrl) return grpc.publicUrl;
    return `${new URL(this.publicUrl).hostname}:${this.grpcServer.port ?? grpc.port}`;
  }

  override prefixOf(path: string): string {
    return prefixOf(this.config, path);
  }
}
