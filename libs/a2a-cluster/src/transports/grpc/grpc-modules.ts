import type * as LegacyGrpcService from '@a2a-js/sdk/compat/v0_3/server/grpc';
import type * as GrpcService from '@a2a-js/sdk/server/grpc';
import type * as GrpcJs from '@grpc/grpc-js';
import { ClusterOptionsError } from '../../errors/cluster-options.error.js';
import type { ResolvedOptions } from '../../options/cluster.options.js';

/** The packages that the gRPC transport is made of. */
export interface LoadedGrpcModules {
  readonly grpc: typeof GrpcJs;
  readonly sdk: typeof GrpcService;
  /** Undefined where version 0.3 is not served. */
  readonly legacy: typeof LegacyGrpcService | undefined;
}

/** The optional packages of gRPC; nothing is loaded if gRPC is off. */
export class GrpcModules {
  constructor(readonly loaded: LoadedGrpcModules | undefined) {}
}

/** Throws {@link ClusterOptionsError} where gRPC is on and its packages are not installed. */
export async function loadGrpcModules({ grpc, legacyCompat }: ResolvedOptions): Promise<GrpcModules> {
  if (!grpc) return new GrpcModules(undefined);
  try {
    return new GrpcModules({
      grpc: await import('@grpc/grpc-js'),
      sdk: await import('@a2a-js/sdk/server/grpc'),
      legacy: legacyCompat.grpc ? await import('@a2a-js/sdk/compat/v0_3/server/grpc') : undefined,
    });
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
