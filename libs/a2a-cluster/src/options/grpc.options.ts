import { UnauthenticatedUser, type User } from '@a2a-js/sdk/server';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { requireWhole, requireWord, withoutUndefined } from './rules.js';

/**
 * What a gRPC user builder is given: the part of @grpc/grpc-js' `ServerUnaryCall` or `ServerWritableStream` that says
 * who calls. It is described here, so that the package's types need no @grpc/grpc-js.
 */
export interface GrpcCall {
  /** What the client sent along. Names are in lower case. */
  readonly metadata: { get(name: string): (string | Buffer)[]; getMap(): Record<string, string | Buffer> };
  /** The client's address. */
  getPeer(): string;
  /** The method called, such as `/lf.a2a.v1.A2AService/SendMessage`. */
  getPath(): string;
}

/**
 * Says who calls over gRPC. Throw to refuse the call: Nest's `UnauthorizedException` and `ForbiddenException` become
 * UNAUTHENTICATED and PERMISSION_DENIED with their message, errors of the SDK stay what they are. Anything else becomes
 * INTERNAL, and is logged.
 */
export type GrpcUserBuilder = (call: GrpcCall) => User | Promise<User>;

/**
 * The gRPC transport. It has a server of its own, beside the app's HTTP server, and needs the packages @grpc/grpc-js
 * and @bufbuild/protobuf. Messages may be as large as `transports.bodyLimitBytes` allows.
 */
export interface GrpcOptions {
  /** The address to listen on. Text without white space. Default: `0.0.0.0`, all of the machine. */
  host: string;
  /** The port to listen on, from 0 to 65 535. 0 takes a free one, which `A2AGrpcServer` tells. Required. */
  port: number;
  /**
   * Where clients reach all replicas, as the agent card says it: a gRPC target such as `agent.example.com:443`.
   * Default: the host of the option `publicUrl`, with the port that is listened on.
   */
  publicUrl?: string;
  /**
   * A `ServerCredentials` of @grpc/grpc-js. The boot is refused where it is something else. Default: none, which is
   * plain HTTP/2, for replicas behind something that ends TLS.
   */
  credentials?: object;
  /**
   * Says who calls. Guards and middleware of the app see HTTP only, so it is required beside the option `guards`.
   * Default: every caller is anonymous.
   */
  userBuilder: GrpcUserBuilder;
  /**
   * Further options of the server, such as `grpc.max_connection_age_ms`. They win over those that the library sets,
   * `grpc.max_receive_message_length` and `grpc.keepalive_time_ms`. Default: none.
   */
  channelOptions: Record<string, string | number>;
}

/** Takes every caller for anonymous: the default user builder. */
export const anonymousCaller: GrpcUserBuilder = () => new UnauthenticatedUser();

const GRPC_DEFAULTS: Omit<GrpcOptions, 'port'> = {
  host: '0.0.0.0',
  userBuilder: anonymousCaller,
  channelOptions: {},
};

/**
 * The gRPC transport with its defaults; false where it is off. `credentials` are checked where the package that makes
 * them is loaded. Throws {@link ClusterOptionsError}.
 */
export function resolveGrpc(given: Partial<GrpcOptions> | false | undefined): GrpcOptions | false {
  if (given === undefined || given === false) return false;
  if (typeof given !== 'object' || given === null) {
    throw ClusterOptionsError.rule('grpc', given, 'it must be false, or an object with at least a port');
  }
  const grpc = { ...GRPC_DEFAULTS, ...withoutUndefined(given) } as GrpcOptions;
  requireWhole('grpc.port', grpc.port, 0, 65_535);
  requireWord('grpc.host', grpc.host, 'it must be an address to listen on, such as 0.0.0.0');
  if (grpc.publicUrl !== undefined) {
    requireWord('grpc.publicUrl', grpc.publicUrl, 'it must be a gRPC target such as agent.example.com:443');
  }
  if (typeof grpc.userBuilder !== 'function') {
    throw ClusterOptionsError.rule('grpc.userBuilder', grpc.userBuilder, 'it must be a function that says who calls');
  }
  if (typeof grpc.channelOptions !== 'object' || grpc.channelOptions === null) {
    const rule = "it must be an object of a gRPC server's options";
    throw ClusterOptionsError.rule('grpc.channelOptions', grpc.channelOptions, rule);
  }
  return grpc;
}
