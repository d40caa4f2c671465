import type * as GrpcService from '@a2a-js/sdk/server/grpc';
import type * as GrpcJs from '@grpc/grpc-js';
import { ClusterOptionsError } from '../../errors/cluster-options.error.js';

/** What the gRPC transport is made of. */
export interface GrpcModules {
  readonly grpc: typeof GrpcJs;
  readonly sdk: typeof GrpcService;
}

/** Loaded when gRPC is on, and only then: both packages are optional. */
export async function loadGrpcModules(): Promise<GrpcModules> {
  try {
    return { grpc: await import('@grpc/grpc-js'), sdk: await import('@a2a-js/sdk/server/grpc') };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new ClusterOptionsError(
      'grpc',
      'A2AClusterModule option grpc is given, and its packages are not installed: ' +
        'npm install @grpc/grpc-js @bufbuild/protobuf, or set grpc to false.',
      { cause: error },
    );
  }
}
