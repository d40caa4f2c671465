import { A2AError } from '@a2a-js/sdk/errors';

/** Statuses of gRPC that the protocol's own errors do not have. */
export const GRPC_STATUS = {
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;

/** An error with a gRPC status of its own. To HTTP transports it is any other A2AError: an internal error. */
export class GrpcStatusError extends A2AError {
  override readonly name = 'GrpcStatusError';
  /** By which the SDK knows that there is a status. */
  readonly transport = 'grpc';

  constructor(
    readonly status: (typeof GRPC_STATUS)[keyof typeof GRPC_STATUS],
    message: string,
    options?: ErrorOptions,
  ) {
    super({ message, ...options });
  }
}
