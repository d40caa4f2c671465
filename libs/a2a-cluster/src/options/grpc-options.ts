import { UnauthenticatedUser, type User } from '@a2a-js/sdk/server';

/**
 * What a user builder is given: of @grpc/grpc-js' `ServerUnaryCall` or `ServerWritableStream` the part that says who
 * calls. Described here, so that the package's types need no @grpc/grpc-js.
 */
export interface GrpcCall {
  /** What the client sent along; names in lower case. */
  readonly metadata: { get(name: string): (string | Buffer)[]; getMap(): Record<string, string | Buffer> };
  /** The client's address. */
  getPeer(): string;
  /** The method called, such as `/lf.a2a.v1.A2AService/SendMessage`. */
  getPath(): string;
}

/**
 * Who calls over gRPC. Throw to refuse the call: Nest's `UnauthorizedException` and `ForbiddenException` become
 * UNAUTHENTICATED and PERMISSION_DENIED with their message; anything else becomes INTERNAL, and is logged.
 */
export type GrpcUserBuilder = (call: GrpcCall) => User | Promise<User>;

/** The gRPC transport. It has a server of its own, beside the app's HTTP server. */
export interface GrpcOptions {
  /** Address to listen on. Default: `0.0.0.0`. */
  host: string;
  /** Port to listen on; 0 takes a free one, which `A2AGrpcServer` tells. Required. */
  port: number;
  /**
   * Where clients reach all replicas, as the agent card says it: a gRPC target such as `agent.example.com:443`. Default:
   * the host of the option `publicUrl`, with the port that is listened on.
   */
  publicUrl?: string;
  /** A `ServerCredentials` of @grpc/grpc-js. Default: insecure, for replicas behind something that ends TLS. */
  credentials?: object;
  /**
   * Who calls. Guards and middleware of the app see HTTP only, so it is required beside the option `guards`. Default:
   * everybody is anonymous.
   */
  userBuilder: GrpcUserBuilder;
  /** Further options of the server, such as `grpc.max_connection_age_ms` and `grpc.keepalive_time_ms`. Default: none. */
  channelOptions: Record<string, string | number>;
}

/** Nobody is known by name: the default. */
export const anonymousCaller: GrpcUserBuilder = () => new UnauthenticatedUser();
