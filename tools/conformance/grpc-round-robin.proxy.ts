import { once } from 'node:events';
import {
  connect,
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';

const UNAVAILABLE = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '14' };

/**
 * The same as `RoundRobinProxy` for gRPC, whose client keeps to one connection: each call goes to the next replica in
 * turn, and its answer comes back with the trailers that say how it went.
 */
export class GrpcRoundRobinProxy {
  private readonly targets: string[] = [];
  private readonly sessions = new Set<ServerHttp2Session>();
  private calls = 0;

  private constructor(private readonly server: Http2Server) {
    server.on('session', (session) => {
      this.sessions.add(session);
      session.once('close', () => this.sessions.delete(session));
    });
    server.on('stream', (stream, headers) => this.forward(stream, headers));
  }

  /** Listens on 127.0.0.1, at a free port. */
  static async listen(): Promise<GrpcRoundRobinProxy> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new GrpcRoundRobinProxy(server);
  }

  /** Where clients reach the replicas behind it: a gRPC target. */
  get target(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Takes a replica in, under the gRPC target that it serves at. */
  add(target: string): void {
    this.targets.push(target);
  }

  /** Ends every connection. */
  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    for (const session of this.sessions) session.destroy();
    await closed;
  }

  private forward(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    stream.on('error', () => undefined);
    const target = this.targets[this.calls++ % this.targets.length];
    if (target === undefined) return stream.respond(UNAVAILABLE, { endStream: true });
    const upstream = connect(`http://${target}`).on('error', () => undefined);
    const call = upstream.request(headers);
    let trailers: IncomingHttpHeaders = {};
    call.once('response', (answer, flags) => {
      const endStream = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0; // a call that failed at once has headers only
      stream.respond(answer, { endStream, waitForTrailers: !endStream });
      stream.once('wantTrailers', () => stream.sendTrailers(trailers));
      if (!endStream) call.pipe(stream);
    });
    call.once('trailers', (given: IncomingHttpHeaders) => void (trailers = given));
    call.once('error', () => {
      if (stream.headersSent) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
      else if (!stream.destroyed) stream.respond(UNAVAILABLE, { endStream: true });
    });
    stream.once('close', () => upstream.destroy()); // a client that cancels is gone for the replica too
    stream.pipe(call);
  }
}
