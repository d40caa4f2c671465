import type { Provider } from '@nestjs/common';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { A2A_REQUEST_HANDLER } from './tokens.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { StaticOptions } from '../options/static.options.js';
import { GRPC_SERVICES, provide } from './provide.js';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { A2AGrpcServer } from '../transports/grpc/a2a-grpc.server.js';
import { grpcForm } from '../transports/grpc/grpc-form.js';
import { GrpcCallers, type IncomingCall } from '../transports/grpc/grpc-callers.js';
import { loadGrpcModules } from '../transports/grpc/grpc-modules.js';
import { boundedRequests } from '../transports/grpc/grpc-values.js';
import { legacyContext, legacyHandler, modernContext } from '../transports/grpc/grpc-versions.js';
import { anonymousCaller } from '../options/grpc.options.js';
import { GrpcServer } from '../transports/grpc/grpc.server.js';
import { UnsentBytes } from '../transports/flow/unsent-bytes.js';
import { RunningTurns } from '../turns/running-turns.js';

/** The gRPC transport, if it is on: the server, and apart from it what it serves, since the card asks for its port. */
export function grpcProviders(): Provider[] {
  return [
    provide(
      A2AGrpcServer,
      async (
        { grpc, streams }: ResolvedOptions,
        { transports, guards }: StaticOptions,
        unsent: UnsentBytes,
      ): Promise<GrpcServer | null> => {
        if (!grpc) return null;
        if (guards.length > 0 && grpc.userBuilder === anonymousCaller) {
          throw ClusterOptionsError.rule(
            'grpc.userBuilder',
            undefined,
            'guards see HTTP only, so beside the option guards gRPC needs a user builder that says who calls, or refuses',
          );
        }
        return new GrpcServer(await loadGrpcModules(), grpc, transports.bodyLimitBytes, streams.keepAliveMs, unsent);
      },
      [ResolvedOptions, StaticOptions, UnsentBytes],
    ),
    provide(
      GRPC_SERVICES,
      async (
        server: GrpcServer | null,
        requestHandler: A2ARequestHandler,
        { grpc, legacyCompat, requests }: ResolvedOptions,
        running: RunningTurns,
      ): Promise<void> => {
        if (!server || !grpc) return;
        const callers = new GrpcCallers(grpc.userBuilder, running, requests.maxValues);
        const userBuilder = (call: IncomingCall) => callers.admit(call);
        const { sdk } = await loadGrpcModules();
        const service = sdk.grpcService({ requestHandler, userBuilder, contextBuilder: modernContext });
        server.serve(boundedRequests(sdk.A2AService, requests.maxValues), service, grpcForm(sdk.A2AService));
        if (!legacyCompat.grpc) return;
        const legacy = await import('@a2a-js/sdk/compat/v0_3/server/grpc');
        const legacyParts = { requestHandler: legacyHandler(requestHandler), contextBuilder: legacyContext };
        server.serve(
          boundedRequests(legacy.LegacyA2AService, requests.maxValues),
          legacy.legacyGrpcService({ ...legacyParts, userBuilder }),
        );
      },
      [A2AGrpcServer, A2A_REQUEST_HANDLER, ResolvedOptions, RunningTurns],
    ),
  ];
}

/** Where clients reach gRPC; undefined where it is off. */
export function grpcTarget({ grpc, publicUrl }: ResolvedOptions, boundPort: number | undefined): string | undefined {
  if (!grpc) return undefined;
  return grpc.publicUrl ?? (publicUrl && `${new URL(publicUrl).hostname}:${boundPort ?? grpc.port}`);
}
