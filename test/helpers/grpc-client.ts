import { type Client as A2AClient, ClientFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import {
  type CallOptions,
  Client,
  type ClientReadableStream,
  credentials,
  type Interceptor,
  InterceptingCall,
  Metadata,
  type MethodDefinition,
  type ServiceError,
  type StatusObject,
} from '@grpc/grpc-js';
import { onCleanUp } from './clean-up.js';

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

export type Method = keyof typeof A2AService;

/** The service without the SDK's client about it: statuses and metadata as they are, and streams that are not read. */
export class RawGrpcClient {
  private readonly client: Client;

  constructor(target: string) {
    this.client = new Client(target, credentials.createInsecure());
    onCleanUp(() => this.client.close());
  }

  /** What a call is answered with. @throws {ServiceError} */
  call(method: Method, request: object, headers?: Record<string, string>): Promise<unknown> {
    const { path, serialize, deserialize } = codecOf(method);
    return new Promise((resolve, reject) => {
      this.client.makeUnaryRequest(path, serialize, deserialize, request, metadataOf(headers), (error, answer) => {
        if (error) reject(error);
        else resolve(answer);
      });
    });
  }

  /** The status that a call fails with. */
  failure(method: Method, request: object, headers?: Record<string, string>): Promise<ServiceError> {
    return this.call(method, request, headers).then(
      (answer) => {
        throw new Error(`The call was answered: ${JSON.stringify(answer)}`);
      },
      (error: ServiceError) => error,
    );
  }

  /** A stream, of which nothing is read before somebody listens. */
  stream(
    method: Method,
    request: object,
    options: CallOptions = {},
    headers?: Record<string, string>,
  ): ClientReadableStream<unknown> {
    const { path, serialize, deserialize } = codecOf(method);
    const metadata = metadataOf(headers);
    const stream = this.client.makeServerStreamRequest(path, serialize, deserialize, request, metadata, options);
    // It is told as its status as well.
    return stream.on('error', () => undefined);
  }
}

function codecOf(method: Method): {
  path: string;
  serialize: (value: object) => Buffer;
  deserialize: (bytes: Buffer) => unknown;
} {
  const definition = (A2AService as unknown as Record<Method, MethodDefinition<object, unknown>>)[method];
  return {
    path: definition.path,
    serialize: definition.requestSerialize,
    deserialize: definition.responseDeserialize,
  };
}

function metadataOf(headers: Record<string, string> = { 'a2a-version': '1.0' }): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  return metadata;
}

/** The status that a stream ends with. */
export function statusOf(stream: ClientReadableStream<unknown>): Promise<StatusObject> {
  return new Promise((resolve) => stream.once('status', resolve));
}
