import { CleanUp, takeOverSignals } from '../harness/clean-up.js';
import { PostgresServer } from '../harness/postgres-server.js';
import { ReplicaProcess } from '../harness/replica-process.js';
import { replicaEnvironment, type ReplicaSettings } from '../demo/replica-environment.js';
import { describeError } from '../../apps/sample/src/describe-error.js';
import { writeErrorLine, writeLine } from '../harness/output.js';
import { reservePort } from '../harness/port.js';
import { GrpcRoundRobinProxy } from './grpc-round-robin.proxy.js';
import { RoundRobinProxy } from './round-robin.proxy.js';

const HOST = '127.0.0.1';

/** Where the kit has its push receiver. */
const LOOPBACK = '127.0.0.0/8,::1/128';

const BOOT_MS = 15_000;

const USAGE = 'usage: node dist/tools/conformance/serve.js REPLICAS PORT, for example 3 9999';

const cleanUp = new CleanUp();

/**
 * Serves the agent for A2A's compatibility kit at this port, and gRPC at a free one, on an embedded PostgreSQL: one
 * replica by itself, several behind round-robin proxies.
 */
async function serve(count: number, port: number): Promise<void> {
  const database = await PostgresServer.start({ findPort: reservePort });
  cleanUp.add(() => database.stop());
  const databaseUrl = await database.createDatabase('a2a_conformance');
  const publicUrl = `http://${HOST}:${port}`;
  const settings = { A2A_AGENT: 'conformance', A2A_PUSH_ALLOW: LOOPBACK, PUBLIC_URL: publicUrl };
  const start = async (name: string, ports: ReplicaSettings): Promise<void> => {
    const env = replicaEnvironment(databaseUrl, { ...settings, ...ports });
    const replica = ReplicaProcess.spawn(name, { env, detached: true });
    cleanUp.add(() => replica.kill());
    await replica.serves(BOOT_MS);
  };
  if (count === 1) await start('R1', { PORT: String(port), A2A_GRPC_PORT: '0' });
  else {
    const proxy = await RoundRobinProxy.listen(port);
    cleanUp.add(() => proxy.close());
    const grpcProxy = await GrpcRoundRobinProxy.listen();
    cleanUp.add(() => grpcProxy.close());
    for (let n = 1; n <= count; n += 1) {
      const [PORT, A2A_GRPC_PORT] = [String(await reservePort(HOST)), String(await reservePort(HOST))];
      await start(`R${n}`, { PORT, A2A_GRPC_PORT, A2A_GRPC_PUBLIC_URL: grpcProxy.target });
      proxy.add(`http://${HOST}:${PORT}`);
      grpcProxy.add(`${HOST}:${A2A_GRPC_PORT}`);
    }
  }
  writeLine(`serving at ${publicUrl}, replicas: ${count}`);
}

async function finish(exitCode: number): Promise<void> {
  await cleanUp.run();
  process.exit(exitCode);
}

const [count = Number.NaN, port = Number.NaN] = process.argv.slice(2).map(Number);
if (!Number.isInteger(count) || count < 1 || !Number.isInteger(port) || port < 1 || port > 65_535) {
  writeErrorLine(USAGE);
  process.exit(1);
}
takeOverSignals((_signal, exitCode) => finish(exitCode));
await serve(count, port).catch((error: unknown) => {
  writeErrorLine(describeError(error));
  return finish(1);
});
