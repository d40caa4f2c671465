import { Injectable } from '@nestjs/common';
import type {
  handleServerStreamingCall,
  handleUnaryCall,
  Server,
  ServerCredentials,
  ServiceDefinition,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { ClusterOptionsError } from '../../errors/cluster-options.error.js';
import { GOODBYE_MS } from '../flow/open-responses.js';
import { withReader } from '../flow/response-flow.js';
import type { SharedForm } from '../flow/shared-answer.js';
import { UnsentBytes } from '../flow/unsent-bytes.js';
import { A2AGrpcServer } from './a2a-grpc.server.js';
import { GrpcCallReader } from './grpc-call.reader.js';
import { GrpcModules } from './grpc-modules.js';
import { anonymousCaller, type GrpcOptions } from '../../options/grpc.options.js';
import { http2StreamOf } from './http2-stream-of-call.js';
import { ResolvedOptions } from '../../options/cluster.options.js';
import { StaticOptions } from '../../options/static.options.js';

/** A server of @grpc/grpc-js, with what it listens with. */
interface Listening {
  server: Server;
  options: GrpcOptions;
  insecure: () => object;
}

/** Listens from the app's bootstrap to its shutdown. Where gRPC is off it does nothing. */
@Injectable()
export class GrpcServer extends A2AGrpcServer {
  private readonly made: Listening | undefined;
  private bound: number | undefined;

  constructor(
    { loaded }: GrpcModules,
    { grpc: options, streams }: ResolvedOptions,
    { transports, guards }: StaticOptions,
    private readonly unsent: UnsentBytes,
  ) {
    super();
    if (!options || !loaded) return;
    const { ServerCredentials, Server } = loaded.grpc;
    const { credentials, channelOptions, userBuilder } = options;
    if (guards.length > 0 && userBuilder === anonymousCaller) {
      throw ClusterOptionsError.rule(
        'grpc.userBuilder',
        undefined,
        'guards see HTTP only, so beside the option guards gRPC needs a user builder that says who calls, or refuses',
      );
    }
    if (credentials !== undefined && !(credentials instanceof ServerCredentials)) {
      throw ClusterOptionsError.rule(
        'grpc.credentials',
        credentials,
        'it must be a ServerCredentials of @grpc/grpc-js',
      );
    }
    const server = new Server({
      'grpc.max_receive_message_length': transports.bodyLimitBytes,
      ...(streams.keepAliveMs !== Infinity && { 'grpc.keepalive_time_ms': streams.keepAliveMs }),
      ...channelOptions,
    });
    this.made = { server, options, insecure: () => ServerCredentials.createInsecure() };
  }

  get port(): number | undefined {
    return this.bound;
  }

  /**
   * Adds a service of the SDK, whose streams are written at the pace of their readers. With a form, what is large is
   * shared between them.
   */
  serve(definition: ServiceDefinition, service: UntypedServiceImplementation, form?: SharedForm): void {
    const readerOf = (call: object): GrpcCallReader => new GrpcCallReader(http2StreamOf(call), this.unsent, form);
    const handlers = Object.entries(definition).map(([name, { responseStream }]) => {
      if (responseStream) {
        const stream = service[name] as handleServerStreamingCall<unknown, unknown>;
        const atPace: typeof stream = (call) => withReader(readerOf(call).paced(call), () => stream(call));
        return [name, atPace];
      }
      const answer = service[name] as handleUnaryCall<unknown, unknown>;
      const counted: typeof answer = (call, callback) => {
        const reader = readerOf(call);
        withReader(reader, () =>
          answer(call, (...given) => {
            callback(...given);
            reader.answered();
          }),
        );
      };
      return [name, counted];
    });
    this.made?.server.addService(definition, Object.fromEntries(handlers) as UntypedServiceImplementation);
  }

  /** Throws {@link ClusterOptionsError} where the address cannot be listened on. */
  async listen(): Promise<void> {
    if (!this.made) return;
    const { server, options, insecure } = this.made;
    const { host, port, credentials = insecure() } = options;
    const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    this.bound = await new Promise<number>((resolve, reject) => {
      server.bindAsync(address, credentials as ServerCredentials, (error, bound) => {
        if (!error) return resolve(bound);
        const message = `A2AClusterModule option grpc.port is ${port}: ${address} cannot be listened on`;
        reject(new ClusterOptionsError('grpc.port', `${message} (${error.message}).`, { cause: error }));
      });
    });
  }

  /** Waits until the calls have ended, and cuts off what is still open: a reader that does not read never ends. */
  async close(): Promise<void> {
    if (!this.made) return;
    const { server } = this.made;
    this.bound = undefined;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      server.tryShutdown(() => resolve());
      timer = setTimeout(() => {
        server.forceShutdown();
        resolve();
      }, GOODBYE_MS);
    });
    clearTimeout(timer);
  }
}
