import { once } from 'node:events';
import {
  Client,
  credentials,
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type StatusObject,
  status,
} from '@grpc/grpc-js';
import { GrpcRoundRobinProxy } from './grpc-round-robin.proxy.js';

type Call = ServerDuplexStream<Buffer, Buffer>;

const asIs = (bytes: Buffer): Buffer => bytes;
const servers: Server[] = [];
let proxy: GrpcRoundRobinProxy;
let client: Client;

async function serve(handle: (call: Call) => void): Promise<void> {
  const server = new Server();
  const codecs = { requestSerialize: asIs, requestDeserialize: asIs, responseSerialize: asIs };
  const method = { path: '/test/Do', requestStream: true, responseStream: true, responseDeserialize: asIs, ...codecs };
  server.addService({ do: method }, { do: handle });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  servers.push(server);
  proxy.add(`127.0.0.1:${port}`);
}

/** A call, of which nothing is read before somebody listens. */
function open(metadata = new Metadata()) {
  const call = client.makeBidiStreamRequest('/test/Do', asIs, asIs, metadata);
  call.on('error', () => undefined); // it is told as its status as well
  const ended = new Promise<StatusObject>((resolve) => call.once('status', resolve));
  return { call, ended };
}

beforeEach(async () => {
  proxy = await GrpcRoundRobinProxy.listen();
  client = new Client(proxy.target, credentials.createInsecure());
});

afterEach(async () => {
  client.close();
  await proxy.close();
  for (const server of servers.splice(0)) server.forceShutdown();
});

describe('GrpcRoundRobinProxy', () => {
  it('sends each call to the next target, with its metadata, and brings messages and trailers back', async () => {
    for (const name of ['A', 'B', 'C']) {
      await serve((call) => {
        const trailers = new Metadata();
        trailers.set('name', `${name} for ${String(call.metadata.get('who')[0])}`);
        call.on('data', (message: Buffer) => call.write(message)).once('end', () => call.end(trailers));
      });
    }
    const metadata = new Metadata();
    metadata.set('who', 'me');
    const names: unknown[] = [];
    for (let n = 0; n < 6; n += 1) {
      const { call, ended } = open(metadata);
      const messages: string[] = [];
      call.on('data', (message: Buffer) => messages.push(message.toString()));
      call.write(Buffer.from('one'));
      call.end(Buffer.from('other'));
      const end = await ended;
      expect([end.code, messages]).toEqual([status.OK, ['one', 'other']]);
      names.push(end.metadata.get('name')[0]);
    }
    expect(names).toEqual(['A', 'B', 'C', 'A', 'B', 'C'].map((name) => `${name} for me`));
  });

  it('passes on what is streamed as it comes, and hangs up where the client has', async () => {
    let gone: Promise<unknown> | undefined;
    await serve((call) => {
      gone = once(call, 'cancelled');
      call.write(Buffer.from('one'));
    });
    const { call, ended } = open();
    const [message] = (await once(call, 'data')) as [Buffer]; // the target has not ended its answer
    expect(message.toString()).toBe('one');
    call.cancel();
    expect((await ended).code).toBe(status.CANCELLED);
    await gone;
  });

  it('brings an error back, of a call that failed at once and of one that had answered', async () => {
    await serve((call) => call.emit('error', { code: status.NOT_FOUND, details: 'at once' }));
    await serve((call) => {
      call.write(Buffer.from('one'));
      call.emit('error', { code: status.ABORTED, details: 'later' });
    });
    const ends: unknown[] = [];
    for (let n = 0; n < 2; n += 1) {
      const { call, ended } = open();
      call.resume();
      const { code, details } = await ended;
      ends.push([code, details]);
    }
    expect(ends).toEqual([
      [status.NOT_FOUND, 'at once'],
      [status.ABORTED, 'later'],
    ]);
  });

  it('answers UNAVAILABLE without any target, and for one that is not there', async () => {
    expect((await open().ended).code).toBe(status.UNAVAILABLE);
    const closed = await GrpcRoundRobinProxy.listen();
    proxy.add(closed.target);
    await closed.close();
    expect((await open().ended).code).toBe(status.UNAVAILABLE);
  });

  it('breaks off what the target breaks off', async () => {
    await serve((call) => call.write(Buffer.from('one')));
    const { call, ended } = open();
    await once(call, 'data');
    servers[0]!.forceShutdown();
    expect((await ended).code).not.toBe(status.OK);
  });
});
