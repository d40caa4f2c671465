import type { Client } from 'pg';
import { DatabaseTimeoutError } from '../errors/database-timeout.error.js';

/**
 * One connection of its own, beside the app's pool, so that what is urgent never waits behind users' transactions.
 * It connects when first used, is dropped at the first error or time-out, and connects anew on the next use.
 */
export class DedicatedConnection {
  private current: Promise<Client> | undefined;
  /** The client behind it, also while it still connects: a silent server never settles that. */
  private client: Client | undefined;
  private closed = false;
  /** The statement before: a connection runs one at a time. */
  private busy: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly create: () => Client,
    private readonly onConnected: (client: Client) => Promise<void> = () => Promise.resolve(),
    private readonly onLost: (error: Error) => void = () => undefined,
  ) {}

  /** Runs one statement, or drops the connection and throws once `timeoutMs` have passed. */
  async query<R extends object>(sql: string, params: unknown[], timeoutMs: number): Promise<R[]> {
    let timer: NodeJS.Timeout | undefined;
    const timedOut = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new DatabaseTimeoutError(timeoutMs)), timeoutMs);
    });
    try {
      const work = this.busy.then(() => this.connected()).then((client) => client.query<R>(sql, params));
      this.busy = work.catch(() => undefined);
      return (await Promise.race([work, timedOut])).rows;
    } catch (error) {
      this.drop(error as Error);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Connects if it is not connected. */
  async connect(timeoutMs: number): Promise<void> {
    await this.query('SELECT 1', [], timeoutMs);
  }

  async close(): Promise<void> {
    this.closed = true;
    const { client } = this;
    this.current = undefined;
    this.client = undefined;
    if (!client) return;
    client.removeAllListeners();
    client.on('error', () => undefined);
    // A black-holed socket never answers the goodbye: destroying it after end() was sent leaves nothing open.
    await Promise.race([client.end().catch(() => undefined), new Promise((resolve) => setImmediate(resolve))]);
    destroySocket(client);
  }

  private connected(): Promise<Client> {
    if (this.closed) return Promise.reject(new Error('The connection is closed.'));
    this.current ??= this.open();
    return this.current;
  }

  private async open(): Promise<Client> {
    const client = this.create();
    this.client = client;
    client.on('error', (error: Error) => this.drop(error, client));
    client.on('end', () => this.drop(new Error('The database closed the connection.'), client));
    try {
      await client.connect();
      await this.onConnected(client);
      return client;
    } catch (error) {
      destroySocket(client);
      throw error;
    }
  }

  /** Forgets the current connection; with `only`, if it is still that one. */
  private drop(error: Error, only = this.client): void {
    if (!only || only !== this.client || this.closed) return;
    this.current?.catch(() => undefined);
    this.current = undefined;
    this.client = undefined;
    destroySocket(only);
    this.onLost(error);
  }
}

/** Ends a connection without asking the other side, which may be gone. */
export function destroySocket(client: object): void {
  (client as { connection?: { stream?: { destroy(): void } } }).connection?.stream?.destroy();
}
