import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

// Jest runs this file outside of its module system and compiles it to CommonJS, where a relative import with a `.js`
// suffix does not find its `.ts` file. So it imports packages only, and requires without a suffix what it has to share.
type PostgresModule = typeof import('../../tools/harness/postgres-server.js');
type PortModule = typeof import('../../tools/harness/port.js');

declare global {
  /** What globalTeardown has to end: both run in Jest's main process. */
  var a2aTestRun: { stopDatabase: () => Promise<void>; stopSweeping: () => Promise<void> } | undefined;
}

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
    await Promise.all([provideDatabase(globalConfig.rootDir, runDir), bundleReplica(globalConfig.rootDir, runDir)]);
  } catch (error) {
    await globalThis.a2aTestRun.stopDatabase();
    await stopSweeping();
    throw error;
  }
}

async function provideDatabase(rootDir: string, runDir: string): Promise<void> {
  if (process.env.A2A_TEST_DATABASE_URL) return;
  const requireHarness = createRequire(join(rootDir, 'tools/harness/any.js'));
  const { PostgresServer } = requireHarness('./postgres-server') as PostgresModule;
  const { reservePort } = requireHarness('./port') as PortModule;
  const server = await PostgresServer.start({
    findPort: reservePort,
    folderPrefix: join(runDir, 'postgres-'), // where sweep-run.sh finds it
    passwordFolder: runDir,
  });
  if (globalThis.a2aTestRun) globalThis.a2aTestRun.stopDatabase = () => server.stop();
  process.env.A2A_TEST_DATABASE_URL = server.url();
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
