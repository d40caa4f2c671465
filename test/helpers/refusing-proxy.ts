import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { onCleanUp } from './clean-up.js';

/** Stands before PostgreSQL on a port of its own, which it closes and opens again as a server does that restarts. */
export class RefusingProxy {
  private server: Server | undefined;
  private readonly sockets = new Set<Socket>();
  private port = 0;
  private forget: () => void = () => undefined;

  private constructor(private readonly databaseUrl: string) {}

  static async start(databaseUrl: string): Promise<RefusingProxy> {
    const proxy = new RefusingProxy(databaseUrl);
    await proxy.accept();
    proxy.forget = onCleanUp(() => proxy.stop());
    return proxy;
  }

  /** The database's URL by way of the proxy. */
  get url(): string {
    const url = new URL(this.databaseUrl);
    url.hostname = '127.0.0.1';
    url.port = String(this.port);
    return url.href;
  }

  /** Ends all connections; new ones are refused. */
  async refuse(): Promise<void> {
    const { server } = this;
    this.server = undefined;
    for (const socket of this.sockets) socket.destroy();
    if (!server) return;
    server.close();
    await once(server, 'close');
  }

  async accept(): Promise<void> {
    const { hostname, port } = new URL(this.databaseUrl);
    this.server = createServer((client) => {
      const upstream = connect(Number(port), hostname);
      for (const [socket, other] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        this.sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => {
          this.sockets.delete(socket);
          other.destroy();
        });
        socket.pipe(other);
      }
    }).listen(this.port, '127.0.0.1');
    await once(this.server, 'listening');
    this.port = (this.server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.forget();
    await this.refuse();
  }
}
