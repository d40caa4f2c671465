import { A2AService } from '@a2a-js/sdk/server/grpc';
import {
  type CallOptions,
  Client,
  type ClientReadableStream,
  credentials,
  Metadata,
  type MethodDefinition,
  type ServiceError,
  type StatusObject,
} from '@grpc/grpc-js';
import { onCleanUp } from './clean-up.js';

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
