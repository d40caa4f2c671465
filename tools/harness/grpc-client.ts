import { type Client as A2AClient, ClientFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { type CallOptions, type Interceptor, InterceptingCall } from '@grpc/grpc-js';

export interface GrpcClientOptions {
  /** Name of the caller, sent as `authorization: Bearer NAME`. Default: anonymous. */
  user?: string | undefined;
  callOptions?: Partial<CallOptions>;
}

/** The SDK's own gRPC client of the agent whose card is served under `url`. Its connection closes with the server. */
export function grpcClientFor(url: string, { user, callOptions = {} }: GrpcClientOptions = {}): Promise<A2AClient> {
  const interceptors = user === undefined ? [] : [withMetadata('authorization', `Bearer ${user}`)];
  const factory = new GrpcTransportFactory({ grpcCallOptions: { ...callOptions, interceptors } });
  return new ClientFactory({ transports: [factory] }).createFromUrl(url);
}

/** Sends an entry of metadata along with each call. */
export const withMetadata =
  (name: string, value: string): Interceptor =>
  (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start(metadata, listener, next) {
        metadata.set(name, value);
        next(metadata, listener);
      },
    });
