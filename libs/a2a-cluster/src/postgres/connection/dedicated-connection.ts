import type { Client } from 'pg';
import { DatabaseTimeoutError } from '../../errors/database-timeout.error.js';
import { connectionTrouble, verdictOn } from './database-errors.js';
import { boundedBy } from '../../async/late-timer.js';

/**
 * One connection of its own, beside the app's pool, so that what is urgent never waits behind users' transactions.
 * It connects when first used, is dropped at a time-out and at the first error of the connection, and connects anew on
 * the next use. A statement that the server refuses leaves it as it is.
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
    let givenUp: DatabaseTimeoutError | undefined;
    let used: Client | undefined;
    let expire!: (error: DatabaseTimeoutError) => void;
    const timedOut = new Promise<never>((_, reject) => (expire = reject));
    const bound = boundedBy(timeoutMs, () => expire((givenUp = new DatabaseTimeoutError(timeoutMs))));
    const work = this.busy.then(async () => {
      // Its turn has come too late: nobody waits for it any more.
      if (givenUp) throw givenUp;
      const client = await this.connected();
      if (givenUp) throw givenUp as DatabaseTimeoutError;
      used = client;
      return client.query<R>(sql, params);
    });
    this.busy = work.catch(() => undefined);
    try {
      return (await Promise.race([work, timedOut])).rows;
    } catch (error) {
      // The connection that failed, which may have been replaced since; or the one that let us wait.
      if (used && !isRefusal(error)) this.drop(error as Error, used);
      else if (!used && givenUp) this.drop(givenUp);
      throw error;
    } finally {
      bound.clear();
    }
  }

  /** Connects if it is not connected. */
  async connect(timeoutMs: number): Promise<void> {
    await this.query('SELECT 1', [], timeoutMs);
  }

  /** Ends the session. The next use makes another. */
  async disconnect(): Promise<void> {
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

  /** Ends the session for good. */
  async close(): Promise<void> {
    this.closed = true;
    await this.disconnect();
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
      // This session was never ready, also if the server refused its first statement.
      this.drop(error as Error, client);
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

/** Whether the server has refused the statement, and its session goes on. */
const isRefusal = (error: unknown): boolean => !verdictOn(connectionTrouble(error)).isUnfit;
