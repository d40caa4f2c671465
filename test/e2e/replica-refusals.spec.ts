import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { within } from '../../tools/harness/wait.js';
import { SLOW_MS } from '../helpers/cluster.js';
import { createTestDatabase, type TestDatabase } from '../helpers/database.js';
import { spawnReplica } from '../helpers/replica-process.js';

type Environment = Record<string, string>;

const PASSWORD = 'not-for-the-log';

/** A replica that cannot work says why in one line and ends with code 1. */
describe('Replicas that cannot start', () => {
  let database: TestDatabase;
  const servers: Server[] = [];
  const sockets = new Set<Socket>();

  beforeAll(async () => {
    database = await createTestDatabase();
  });

  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    await database.drop();
  });

  async function expectRefusal(env: Environment, says: RegExp): Promise<void> {
    const { exited, output, complaints } = spawnReplica('X', env);
    expect(await within(exited, 60_000, () => `the replica ends: ${output.join(' ')}`)).toMatchObject({ code: 1 });
    expect(output).toEqual([expect.stringMatching(/^replica X cannot start: ./)]);
    expect(output[0]).toMatch(says);
    expect(output[0]).not.toContain(PASSWORD);
    expect(complaints).toEqual(output);
  }

  it('refuses options that the library refuses', async () => {
    const env = { DATABASE_URL: database.url, A2A_HEARTBEAT_MS: '700', A2A_TTL_MS: '2000' };
    await expectRefusal(env, /leases\.heartbeatIntervalMs is 700: .*a third of leases\.ttlMs \(2000\)/);
  });

  it('refuses a port that is in use', async () => {
    const port = await serverThat((socket) => socket.end());
    await expectRefusal({ DATABASE_URL: database.url, PORT: String(port) }, new RegExp(`EADDRINUSE.*:${port}`));
  });

  it('refuses to go without a database', async () => {
    await expectRefusal({}, /DATABASE_URL is missing/);
  });

  it('refuses a database that is not there', async () => {
    const url = new URL(database.url);
    url.pathname = '/no_such_database';
    await expectRefusal({ DATABASE_URL: url.href }, /DATABASE_URL .*no_such_database.* does not exist/);
  });

  it('refuses a database where nobody listens', async () => {
    const port = await serverThat((socket) => socket.end());
    await close(servers.at(-1)!);
    await expectRefusal({ DATABASE_URL: urlAt(port) }, /DATABASE_URL \(127\.0\.0\.1.*ECONNREFUSED/);
  });

  it(
    'refuses a database that is no PostgreSQL, or does not answer',
    async () => {
      const answers: ((socket: Socket) => void)[] = [
        () => undefined,
        (socket) => socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n'),
        (socket) => socket.write(Buffer.from('4a0000000a382e302e333600', 'hex')), // as MySQL greets
      ];
      const ports = await Promise.all(
        answers.map((serve) => serverThat((socket) => socket.once('data', () => serve(socket)))),
      );
      const says = /DATABASE_URL \(127\.0\.0\.1:\d+\/x\) cannot be used: \S+/;
      await Promise.all(ports.map((port) => expectRefusal({ DATABASE_URL: urlAt(port) }, says)));
    },
    SLOW_MS,
  );

  const urlAt = (port: number): string => `postgres://user:${PASSWORD}@127.0.0.1:${port}/x`;

  async function serverThat(serve: (socket: Socket) => void): Promise<number> {
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      serve(socket);
    });
    servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }

  const close = (server: Server): Promise<unknown> => new Promise((resolve) => server.close(resolve));
});
