/** The gRPC server of the module (option `grpc`). Injectable. */
export abstract class A2AGrpcServer {
  /**
   * The port that it listens on: the one that the system chose for port 0. Undefined until the app is initialized, and
   * where gRPC is off.
   */
  abstract readonly port: number | undefined;
}
