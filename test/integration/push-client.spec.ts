import { lookup } from 'node:dns';
import { optionsWith } from '../helpers/options.js';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { PushClient, type ResolveName } from '../../libs/a2a-cluster/src/push/push-client.js';
import { PushTargetGuard } from '../../libs/a2a-cluster/src/push/push-target.guard.js';
import { PushReceiver } from '../helpers/push-receiver.js';
import { eventually } from '../../tools/harness/wait.js';

const TIMEOUT_MS = 500;
const SECRET = 'very-secret';

/** A receiver that speaks as a test says, byte by byte. */
class RawReceiver {
  readonly sockets = new Set<Socket>();
  private readonly server: Server;

  constructor(speak: (socket: Socket) => void) {
    this.server = createServer((socket) => {
      this.sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => this.sockets.delete(socket));
      socket.once('data', () => speak(socket));
    });
  }

  async url(): Promise<string> {
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/?key=${SECRET}`;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    await once(this.server, 'close');
  }
}

/** Writes this again and again, as fast as it is read. */
const flood = (socket: Socket, text: string): void => {
  const write = (): void => {
    while (!socket.destroyed && socket.write(text));
  };
  socket.on('drain', write);
  write();
};

/** A client whose names a test may resolve by itself. */
class ResolvingClient extends PushClient {
  override resolve = lookup as ResolveName;
}

describe('PushClient', () => {
  const clients: PushClient[] = [];
  const receivers: RawReceiver[] = [];

  afterEach(async () => {
    clients.splice(0).forEach((client) => client.close());
    await Promise.all(receivers.splice(0).map((receiver) => receiver.close()));
  });

  function clientOf(allow = ['127.0.0.0/8'], resolve?: ResolveName): PushClient {
    const options = optionsWith({ push: { allow, timeoutMs: TIMEOUT_MS } });
    const client = new ResolvingClient(new PushTargetGuard(options), options);
    if (resolve) client.resolve = resolve;
    clients.push(client);
    return client;
  }

  function receiverOf(speak: (socket: Socket) => void): RawReceiver {
    const receiver = new RawReceiver(speak);
    receivers.push(receiver);
    return receiver;
  }

  const post = (client: PushClient, url: string) =>
    client.post({ url, headers: { authorization: `Bearer ${SECRET}` }, body: '{}' }, new AbortController().signal);

  test.each([
    ['ends its body', (socket: Socket) => void socket.write('HTTP/1.1 200 OK\r\n\r\nand')],
    [
      'stops sending',
      (socket: Socket) => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
        flood(socket, `10000\r\n${'x'.repeat(65_536)}\r\n`);
      },
    ],
    ['sends what it promised', (socket: Socket) => void socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nand')],
  ])('has its answer from a receiver that never %s, and lets go of it', async (_, speak) => {
    const receiver = receiverOf(speak);
    expect(await post(clientOf(), await receiver.url())).toEqual({ taken: true });
    await eventually(() => receiver.sockets.size === 0);
  });

  test.each([
    ['never ends its headers', (socket: Socket) => void socket.write('HTTP/1.1 200 OK\r\nx-one: 1\r\n')],
    [
      'says over and over that it goes on',
      (socket: Socket) => flood(socket, 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1_000)),
    ],
    ['sends headers without end', (socket: Socket) => flood(socket, `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(65_536)}`)],
    ['speaks no HTTP', (socket: Socket) => void socket.end(`${SECRET}\r\n\r\n`)],
    [
      'wants another protocol',
      (socket: Socket) => void socket.write('HTTP/1.1 101 No\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
    ],
  ])('is not held up by a receiver that %s, and tells no secret', async (_, speak) => {
    const receiver = receiverOf(speak);
    const answer = await post(clientOf(), await receiver.url());
    expect(answer).toMatchObject({ taken: false, gone: false });
    expect(JSON.stringify(answer)).not.toContain(SECRET);
    await eventually(() => receiver.sockets.size === 0);
  });

  test('what cannot be sent is no notification that was taken, and no error', async () => {
    const signal = new AbortController().signal;
    for (const [url, token] of [
      ['no URL', ''],
      ['http://127.0.0.1:1/', 'a\r\nhost: b'],
    ] as const) {
      const answer = await clientOf().post({ url, headers: { token }, body: '' }, signal);
      expect(answer).toMatchObject({ taken: false, gone: false });
    }
  });

  test.each([302, 303, 307, 308])('a redirect (%i) is not followed', async (status) => {
    const [receiver, other] = [await PushReceiver.start(), await PushReceiver.start()];
    receiver.answer = (response) => response.writeHead(status, { location: other.url() }).end();
    expect(await post(clientOf(), receiver.url())).toMatchObject({ taken: false });
    expect(other.received).toEqual([]);
  });

  test('a name that led to a public address leads nowhere once it leads to a private one', async () => {
    const receiver = await PushReceiver.start();
    const answers = [['93.184.216.34'], ['127.0.0.1'], ['127.0.0.1', '::ffff:10.0.0.1', '169.254.169.254']];
    const resolve: ResolveName = (_name, _options, callback) => {
      callback(
        null,
        answers.shift()!.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      );
    };
    const client = clientOf([], resolve);
    const url = `https://rebind.example:${receiver.port}/`;
    // Nobody answers there from here; what counts is that it was not refused.
    expect(JSON.stringify(await post(client, url))).not.toContain('private');
    for (let times = 0; times < 2; times += 1) {
      expect(await post(client, url)).toMatchObject({
        reason: expect.stringContaining('private or reserved') as string,
      });
    }
    expect(receiver.received).toEqual([]);
  });

  test('many notifications to one name that does not resolve wait for one look-up', async () => {
    let lookups = 0;
    const client = clientOf([], () => void (lookups += 1));
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(client, 'https://slow.example/')));
    for (const answer of answers) expect(answer).toMatchObject({ taken: false });
    expect(lookups).toBe(1);
  });
});
