import { once } from 'node:events';
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import type { MethodDefinition } from '@grpc/grpc-js';
import { onCleanUp } from './clean-up.js';
import type { Method } from './raw-grpc-client.js';

/**
 * gRPC calls of one connection whose answers nobody reads. @grpc/grpc-js would take sixteen messages of any size first;
 * here each takes no more than HTTP/2 allows ahead of its reader, 64 kB, and all of them together no more than that.
 */
export class UnreadGrpcCalls {
  private readonly session: ClientHttp2Session;

  constructor(target: string) {
    this.session = connect(`http://${target}`).on('error', () => undefined);
    onCleanUp(() => this.session.destroy());
  }

  /** Begins a call. */
  call(method: Method, request: object): UnreadGrpcCall {
    const { path, requestSerialize } = (A2AService as unknown as Record<Method, MethodDefinition<object, unknown>>)[
      method
    ];
    const stream = this.session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      'a2a-version': '1.0',
    });
    const message = requestSerialize(request);
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    stream.end(Buffer.concat([head, message]));
    return new UnreadGrpcCall(stream);
  }

  close(): void {
    this.session.destroy();
  }
}

/** One of them. */
export class UnreadGrpcCall {
  /** Resolves when the answer begins. */
  readonly begun: Promise<unknown>;
  /** Resolves when the server ends it without a status. */
  readonly cutOff: Promise<'ENHANCE_YOUR_CALM' | number>;

  constructor(stream: ClientHttp2Stream) {
    stream.on('error', () => undefined);
    this.begun = once(stream, 'response');
    this.begun.catch(() => undefined);
    this.cutOff = new Promise((resolve) => {
      stream.once('close', () => {
        const { rstCode } = stream;
        resolve(rstCode === constants.NGHTTP2_ENHANCE_YOUR_CALM ? 'ENHANCE_YOUR_CALM' : (rstCode ?? -1));
      });
    });
  }
}
