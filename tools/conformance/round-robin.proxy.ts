import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream';

/** Headers that are between two hops only. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'];

/**
 * A load balancer as plain as can be: each request, not each connection, goes to the next replica in turn. What a
 * replica streams is passed on as it comes, and who hangs up on the one side is hung up on at the other.
 */
export class RoundRobinProxy {
  private readonly targets: string[] = [];
  private requests = 0;

  private constructor(private readonly server: Server) {
    server.on('request', (req: IncomingMessage, res: ServerResponse) => this.forward(req, res));
  }

  /** Listens on 127.0.0.1, at a free port unless one is named. */
  static async listen(port = 0): Promise<RoundRobinProxy> {
    const server = createServer();
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return new RoundRobinProxy(server);
  }

  /** Where clients reach the replicas behind it: their public URL. */
  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Takes a replica in, under the URL that it serves at. */
  add(target: string): void {
    this.targets.push(target);
  }

  /** Ends every connection. */
  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    this.server.closeAllConnections();
    await closed;
  }

  private forward(req: IncomingMessage, res: ServerResponse): void {
    const target = this.targets[this.requests++ % this.targets.length];
    if (target === undefined) return void res.writeHead(503).end();
    const { method, headers } = req;
    const upstream = request(new URL(req.url ?? '/', target), { method, headers: endToEnd(headers), agent: false });
    upstream.once('response', (answer) => {
      res.writeHead(answer.statusCode ?? 502, endToEnd(answer.headers)).flushHeaders();
      pipeline(answer, res, () => upstream.destroy());
    });
    upstream.once('error', () => {
      if (res.headersSent) res.destroy();
      else res.writeHead(502).end();
    });
    res.once('close', () => upstream.destroy());
    req.pipe(upstream);
  }
}

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name)));
}
