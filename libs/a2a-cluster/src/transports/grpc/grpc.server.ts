import type {
  handleServerStreamingCall,
  handleUnaryCall,
  Server,
  ServiceDefinition,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { ClusterOptionsError } from '../../errors/cluster-options.error.js';
import { GOODBYE_MS } from '../flow/open-responses.js';
import { withReader } from '../flow/response-flow.js';
import type { SharedForm } from '../flow/shared-answer.js';
import type { UnsentBytes } from '../flow/unsent-bytes.js';
import { A2AGrpcServer } from './a2a-grpc.server.js';
import { GrpcCallReader } from './grpc-call.reader.js';
import type { GrpcModules } from './grpc-modules.js';
import type { GrpcOptions } from '../../options/grpc.options.js';
import { http2StreamOf } from './http2-stream-of-call.js';

/** Listens from the app's bootstrap to its shutdown. */
export class GrpcServer extends A2AGrpcServer {
  private readonly server: Server;
  private bound: number | undefined;

  constructor(
    private readonly modules: GrpcModules,
    private readonly options: GrpcOptions,
    bodyLimitBytes: number,
    keepAliveMs: number,
    private readonly unsent: UnsentBytes,
  ) {
    super();
    const { credentials, channelOptions } = options;
    if (credentials !== undefined && !(credentials instanceof modules.grpc.ServerCredentials)) {
      throw ClusterOptionsError.rule(
        'grpc.credentials',
        credentials,
        'it must be a ServerCredentials of @grpc/grpc-js',
      );
    }
    this.server = new modules.grpc.Server({
      'grpc.max_receive_message_length': bodyLimitBytes,
      ...(keepAliveMs !== Infinity && { 'grpc.keepalive_time_ms': keepAliveMs }),
      ...channelOptions,
    });
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
    this.server.addService(definition, Object.fromEntries(handlers) as UntypedServiceImplementation);
  }

  /** Throws {@link ClusterOptionsError} where the address cannot be listened on. */
  async listen(): Promise<void> {
    const { ServerCredentials } = this.modules.grpc;
    const { host, port, credentials = ServerCredentials.createInsecure() } = this.options;
    const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    this.bound = await new Promise<number>((resolve, reject) => {
      this.server.bindAsync(address, credentials as InstanceType<typeof ServerCredentials>, (error, bound) => {
        if (!error) return resolve(bound);
        const message = `A2AClusterModule option grpc.port is ${port}: ${address} cannot be listened on`;
        reject(new ClusterOptionsError('grpc.port', `${message} (${error.message}).`, { cause: error }));
      });
    });
  }

  /** Waits until the calls have ended, and cuts off what is still open: a reader that does not read never ends. */
  async close(): Promise<void> {
    this.bound = undefined;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.server.tryShutdown(() => resolve());
      timer = setTimeout(() => {
        this.server.forceShutdown();
        resolve();
      }, GOODBYE_MS);
    });
    clearTimeout(timer);
  }
}
