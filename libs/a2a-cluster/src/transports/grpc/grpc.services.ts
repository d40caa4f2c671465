import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { Inject, Injectable } from '@nestjs/common';
import { ResolvedOptions } from '../../options/cluster.options.js';
import { A2A_REQUEST_HANDLER } from '../../protocol/request-handler.token.js';
import { RunningTurns } from '../../turns/running-turns.js';
import { GrpcCallers, type IncomingCall } from './grpc-callers.js';
import { grpcForm } from './grpc-form.js';
import { GrpcModules } from './grpc-modules.js';
import { boundedRequests } from './grpc-values.js';
import { legacyContext, legacyHandler, modernContext } from './grpc-versions.js';
import { GrpcServer } from './grpc.server.js';

/**
 * The services of the gRPC server. They are apart from it because they serve the agent's card, which names its port.
 */
@Injectable()
export class GrpcServices {
  constructor(
    private readonly server: GrpcServer,
    private readonly modules: GrpcModules,
    @Inject(A2A_REQUEST_HANDLER) private readonly requestHandler: A2ARequestHandler,
    private readonly options: ResolvedOptions,
    private readonly running: RunningTurns,
  ) {}

  /** Adds the services of the versions that are served. */
  serve(): void {
    const { loaded } = this.modules;
    const { grpc, requests } = this.options;
    if (!grpc || !loaded) return;
    const { requestHandler } = this;
    const { sdk, legacy } = loaded;
    const callers = new GrpcCallers(grpc.userBuilder, this.running, requests.maxValues);
    const userBuilder = (call: IncomingCall) => callers.admit(call);
    this.server.serve(
      boundedRequests(sdk.A2AService, requests.maxValues),
      sdk.grpcService({ requestHandler, userBuilder, contextBuilder: modernContext }),
      grpcForm(sdk.A2AService),
    );
    if (!legacy) return;
    this.server.serve(
      boundedRequests(legacy.LegacyA2AService, requests.maxValues),
      legacy.legacyGrpcService({
        requestHandler: legacyHandler(requestHandler),
        userBuilder,
        contextBuilder: legacyContext,
      }),
    );
  }
}
