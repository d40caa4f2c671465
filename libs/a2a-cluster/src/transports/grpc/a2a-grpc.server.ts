/** The gRPC server of the module (option `grpc`). Injectable; null where gRPC is off. */
export abstract class A2AGrpcServer {
  /** The port that it listens on: the one that the system chose for port 0. Undefined until the app is initialized. */
  abstract readonly port: number | undefined;
}
