import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { reservePort } from '../../tools/harness/port.js';
import { onCleanUp } from './clean-up.js';
import { eventually } from '../../tools/harness/wait.js';

/** Where packages install it, besides the PATH. */
const FOLDERS = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];

/** The program of PgBouncer; undefined where this machine has none. */
export const PGBOUNCER = FOLDERS.map((folder) => join(folder, 'pgbouncer')).find((path) => existsSync(path));

/** From this version on PgBouncer keeps prepared statements in transaction mode, unless told not to. */
const KEEPS_STATEMENTS = 121;

/** Nobody, by number: PgBouncer does not run as root. */
const NOBODY = 65_534;

/** How a pooler hands the server's sessions out. */
export interface PoolSettings {
  mode: 'transaction' | 'session';
  /** Sessions of the server at most. */
  size: number;
}

/** A PgBouncer of the test's own before a database of the run's server. */
export class Pooler {
  private constructor(
    private readonly ports: Record<string, string>,
    /** Ends it. */
    readonly stop: () => Promise<void>,
  ) {}

  /** The database's URL through the pool of this name. */
  url(pool: string): string {
    const url = this.ports[pool];
    if (!url) throw new Error(`There is no pool ${pool}`);
    return url;
  }

  static async start(databaseUrl: string, pools: Record<string, PoolSettings>): Promise<Pooler> {
    if (!PGBOUNCER) throw new Error('This machine has no PgBouncer');
    const folder = await mkdtemp(join(tmpdir(), 'a2a-pooler-'));
    const port = await reservePort('127.0.0.1');
    const config = join(folder, 'pgbouncer.ini');
    await chmod(folder, 0o755);
    await writeFile(config, settings(new URL(databaseUrl), port, pools));
    await chmod(config, 0o644);
    const identity = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
    const child = spawn(PGBOUNCER, [config], { stdio: ['ignore', 'pipe', 'pipe'], ...identity });
    const log: string[] = [];
    child.stdout.on('data', (chunk) => log.push(String(chunk)));
    child.stderr.on('data', (chunk) => log.push(String(chunk)));
    const exited = once(child, 'exit');
    const forget = onCleanUp(() => void child.kill('SIGKILL'));
    const stop = async (): Promise<void> => {
      child.kill('SIGKILL');
      await exited;
      forget();
      await rm(folder, { recursive: true, force: true });
    };
    try {
      await eventually(() => {
        if (child.exitCode !== null) throw new Error(`PgBouncer has ended: ${log.join('')}`);
        return answers(port);
      });
    } catch (error) {
      await stop();
      throw error;
    }
    const urls = Object.keys(pools).map((name) => [name, `postgres://anyone@127.0.0.1:${port}/${name}`]);
    return new Pooler(Object.fromEntries(urls) as Record<string, string>, stop);
  }
}

function settings(server: URL, port: number, pools: Record<string, PoolSettings>): string {
  const { hostname, port: serverPort, username, password, pathname } = server;
  const to =
    `host=${hostname} port=${serverPort || '5432'} dbname=${pathname.slice(1)} ` +
    `user=${decodeURIComponent(username)} password=${decodeURIComponent(password)}`;
  return [
    '[databases]',
    ...Object.entries(pools).map(([name, { mode, size }]) => `${name} = ${to} pool_mode=${mode} pool_size=${size}`),
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    'ignore_startup_parameters = extra_float_digits',
    ...(version() >= KEEPS_STATEMENTS ? ['max_prepared_statements = 0'] : []),
    '',
  ].join('\n');
}

/** Such as 118 for 1.18.0. */
function version(): number {
  const { stdout } = spawnSync(PGBOUNCER!, ['--version'], { encoding: 'utf8' });
  const [, major, minor] = /(\d+)\.(\d+)/.exec(stdout) ?? [];
  return Number(major) * 100 + Number(minor);
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
