import { AsyncLocalStorage } from 'node:async_hooks';
import type { Client, Pool, PoolClient } from 'pg';
import { messageOf } from '../../errors/described.js';
import { DatabaseClosedError } from '../../errors/database-closed.error.js';
import { DatabaseConnectionError } from '../../errors/database-connection.error.js';
import { DatabaseTimeoutError } from '../../errors/database-timeout.error.js';
import { cancelBackend } from './cancel-backend.js';
import { ConnectionQueue, type Lane, type Waiter } from './connection-queue.js';
import { connectionTrouble, verdictOn } from './database-errors.js';
import { destroySocket } from './dedicated-connection.js';
import { boundedBy, within } from '../../async/late-timer.js';
import { openSession, type Session, type SessionLimits } from './session.js';
import { LibraryLogger } from '../../logging/library.logger.js';

/** pg's pool as it is, with what its types leave out. */
export type PgPool = Pool & { Client: new (config: object) => Client };

/** How many connections are opened at boot and kept: one for renewals, one for control work, one for the rest. */
const KEPT = 3;

/** How long a connection may take to be made, in ms. A silent server is asked again then, on another one. */
const CONNECT_MS = 10_000;

/**
 * For how long, in ms, no further connection is asked for after the server has refused one for having too many: the ones
 * that there are do all the work meanwhile.
 */
const REFUSED_MS = 1_000;

/** A connection in the hands of one call. One of the two methods ends that. */
export interface Lent {
  readonly client: PoolClient;
  readonly session: Session;
  /** Gives it back. With an error that makes it unfit for further use it is closed. */
  release(failure?: unknown): void;
  /** Closes a connection whose answer nobody waits for, and asks the server to stop its statement. */
  abandon(): void;
}

/** A call that has asked for a connection. */
export interface Asked {
  /** It wants none any more. */
  giveUp(): void;
}

type Taken = (error: Error | undefined, lent?: Lent) => void;

/**
 * The library's own connections, with the settings of the app's pool: what the app's code holds cannot starve what keeps
 * its turns alive, and no statement of ours is ever behind one of the app's.
 */
export class ConnectionPool {
  private readonly logger = new LibraryLogger('A2AClusterDatabase');
  /**
   * A socket remembers the async context that it was opened in for as long as it lives: a pooled connection must not keep
   * the turn alive that happened to open it.
   */
  private readonly outside = AsyncLocalStorage.snapshot();
  private readonly sessions = new WeakMap<PoolClient, Session>();
  private readonly lent = new Set<Lent>();
  /** Refuses those whom the pool has not answered yet. */
  private readonly asking = new Set<() => void>();
  private readonly queue: ConnectionQueue;
  private readonly pool: PgPool;
  private readonly clients: OpenClients;
  /** How long a connection may take to come, in ms, and its first look. */
  private readonly connectMs: number;
  private refusedUntil = -Infinity;
  private closed = false;

  constructor(
    appPool: PgPool,
    private readonly max: number,
    private readonly limits: SessionLimits,
  ) {
    this.connectMs = Math.min(CONNECT_MS, limits.statementMs);
    this.pool = poolLike(appPool, max, this.connectMs);
    // A connection that is lost while nobody uses it is replaced at the next use.
    this.pool.on('error', () => undefined);
    this.pool.on('connect', (client) => client.on('error', () => undefined));
    this.clients = clientsOf(this.pool);
    this.queue = new ConnectionQueue(() => this.connections());
  }

  /** Opens the connections that are kept. Throws where not one of them can be opened. */
  async open(): Promise<void> {
    const lanes: Lane[] = ['renewal', 'renewal', 'renewal'];
    const opened = await Promise.allSettled(
      lanes.slice(0, KEPT).map((lane) => this.borrow(lane, this.limits.statementMs)),
    );
    for (const one of opened) if (one.status === 'fulfilled') one.value.release();
    const refusals = opened.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
    if (refusals.length === opened.length) throw refusals[0];
    if (refusals.length === 0) return;
    this.logger.warn(
      `Only ${opened.length - refusals.length} of the ${KEPT} connections that this replica keeps for itself could be ` +
        `opened: renewals, cancels and recovery share them. It asks for more when it needs them. ${messageOf(refusals[0])}`,
    );
  }

  /**
   * Asks for a connection; `taken` is called once, unless it is given up before.
   * @throws {DatabaseOverloadedError}
   */
  lend(lane: Lane, taken: Taken): Asked {
    let wanted = true;
    let tries = 0;
    const asked: { waiter?: Waiter } = {};
    const begin = (): void => {
      tries += 1;
      this.connect(lane, (error, lent) => {
        if (error !== undefined) {
          this.queue.done(lane);
          // The others that there are come free. And a server that was silent, or takes no writes, is asked a second time:
          // this process may have stood still, or the name may lead elsewhere by now.
          const again = this.noteRefusal(error) || (error instanceof DatabaseConnectionError && tries === 1);
          if (wanted && again && !this.closed) asked.waiter = this.queue.askAgain(lane, begin);
          else if (wanted) taken(error);
        } else if (wanted) taken(undefined, lent);
        else lent!.release(); // It was never used: it goes back as it is.
      });
    };
    asked.waiter = this.queue.ask(lane, begin);
    return {
      giveUp: () => {
        wanted = false;
        asked.waiter?.cancel();
      },
    };
  }

  /** The same as a promise that rejects once the time is over. */
  borrow(lane: Lane, timeoutMs: number): Promise<Lent> {
    return new Promise((resolve, reject) => {
      const asked = this.lend(lane, (error, lent) => {
        bound.clear();
        if (lent) resolve(lent);
        else reject(error!);
      });
      const bound = boundedBy(timeoutMs, () => {
        asked.giveUp();
        reject(new DatabaseTimeoutError(timeoutMs));
      });
    });
  }

  /** Lends no more; what is still under way after `graceMs` is broken off. */
  async close(graceMs: number): Promise<void> {
    this.closed = true;
    const ended = this.pool.end().catch(() => undefined);
    // A pool that ends forgets those who wait for one of its clients.
    for (const refuse of [...this.asking]) refuse();
    await within(graceMs, ended);
    for (const one of this.lent) one.abandon();
    // Also where the pool has ended: it does not wait for the server's answer to its goodbyes, which may never come.
    this.clients.destroy();
  }

  /** How many there may be now. */
  private connections(): number {
    const isRefused = performance.now() < this.refusedUntil;
    return isRefused ? Math.min(this.max, Math.max(1, this.pool.totalCount)) : this.max;
  }

  private connect(lane: Lane, done: Taken): void {
    if (this.closed) return queueMicrotask(() => done(new DatabaseClosedError()));
    const answer: Taken = (error, lent) => {
      if (this.asking.delete(refuse)) done(error, lent);
    };
    const refuse = (): void => answer(new DatabaseClosedError());
    this.asking.add(refuse);
    try {
      this.outside(() => this.pool.connect((error, client) => this.connected(lane, answer, refuse, error, client)));
    } catch (error) {
      // Making a client reads the certificates that its settings name, which may be gone.
      queueMicrotask(() => answer(connectionTrouble(error)));
    }
  }

  /** The pool has answered: a new connection is looked at first. One that nobody waits for any more is closed. */
  private connected(lane: Lane, answer: Taken, asker: () => void, error?: Error, client?: PoolClient): void {
    if (!this.asking.has(asker)) return client && discard(client);
    if (error || !client) return answer(connectionTrouble(error ?? new Error('The pool gave no connection.')));
    const session = this.sessions.get(client);
    if (session) return answer(undefined, this.lentOf(client, session, lane));
    this.openSession(client).then(
      (opened) => {
        if (!this.asking.has(asker)) return discard(client);
        if (lane === 'read' || !opened.readOnly) return answer(undefined, this.lentOf(client, opened, lane));
        client.release(true);
        answer(new DatabaseConnectionError('The database server takes no writes at the moment: it is read only.'));
      },
      (failure: unknown) => {
        client.release(true);
        answer(connectionTrouble(failure));
      },
    );
  }

  private async openSession(client: PoolClient): Promise<Session> {
    const bound = boundedBy(this.connectMs, () => destroySocket(client));
    try {
      const session = await openSession(client, this.limits);
      return session;
    } finally {
      bound.clear();
    }
  }

  /** Whether the server has no connection to give while there are others: then the call waits for one of those. */
  private noteRefusal(error: unknown): boolean {
    if (this.closed || this.pool.totalCount === 0 || !verdictOn(error).isFull) return false;
    if (performance.now() >= this.refusedUntil) {
      this.logger.warn(
        `The database gives this replica no further connection, so it goes on with ${this.pool.totalCount}. ${messageOf(error)}`,
      );
    }
    this.refusedUntil = performance.now() + REFUSED_MS;
    setTimeout(() => this.queue.next(), REFUSED_MS).unref();
    return true;
  }

  private lentOf(client: PoolClient, session: Session, lane: Lane): Lent {
    let held = true;
    const giveBack = (destroy: boolean): void => {
      held = false;
      this.lent.delete(lent);
      client.release(destroy);
      this.queue.done(lane);
    };
    const lent: Lent = {
      client,
      session,
      release: (failure) => {
        if (held) giveBack(session.readOnly || (failure !== undefined && verdictOn(failure).isUnfit));
      },
      abandon: () => {
        if (!held) return;
        cancelBackend(client, () => new this.pool.Client(optionsOf(this.pool)));
        destroySocket(client);
        giveBack(true);
      },
    };
    this.sessions.set(client, session);
    this.lent.add(lent);
    return lent;
  }
}

/** Closes a connection without waiting for the server's answer to the goodbye. */
function discard(client: PoolClient): void {
  destroySocket(client);
  client.release(true);
}

/** A pool of our own with the app's settings; the bounds of statements are ours. */
function poolLike(appPool: PgPool, max: number, connectMs: number): PgPool {
  const { connectionTimeoutMillis } = appPool.options as { connectionTimeoutMillis?: number };
  const Constructor = appPool.constructor as new (options: object) => PgPool;
  const pool = new Constructor({
    keepAlive: true,
    ...optionsOf(appPool),
    max,
    min: Math.min(KEPT, max),
    // 0 is pg's word for none.
    connectionTimeoutMillis: connectionTimeoutMillis ? Math.min(connectionTimeoutMillis, connectMs) : connectMs,
    query_timeout: 0,
    ...preparedWithin(connectMs, optionsOf(appPool)),
    Client: appPool.Client,
  });
  pool.Client ??= appPool.Client;
  return pool;
}

/** The bound of a pool ends with the login: what the app has each connection do after that is bounded here. */
function preparedWithin(ms: number, { onConnect }: { onConnect?: (client: Client) => unknown }): object {
  if (!onConnect) return {};
  const prepare = async (client: Client): Promise<void> => {
    const bound = boundedBy(ms, () => destroySocket(client));
    const closed = new Promise<never>((_resolve, reject) => {
      client.once('end', () => reject(new DatabaseTimeoutError(ms)));
    });
    try {
      await Promise.race([onConnect(client), closed]);
    } finally {
      bound.clear();
    }
  };
  return { onConnect: prepare };
}

/** pg-pool hides the password from enumeration, so a plain spread would lose it. */
export function optionsOf(pool: PgPool): object {
  return { ...pool.options, password: (pool.options as { password?: unknown }).password };
}

/** The clients of a pool whose sockets are open, whoever has them, and also while the pool is ending. */
export interface OpenClients {
  /** Closes them without asking the server, which may never answer a goodbye. */
  destroy(): void;
}

const known = new WeakMap<PgPool, OpenClients>();

export function clientsOf(pool: PgPool): OpenClients {
  const before = known.get(pool);
  if (before) return before;
  // The pool knows of those that are being opened; what it is ending it has forgotten.
  const ofPool = (): readonly Client[] => (pool as unknown as { _clients?: readonly Client[] })._clients ?? [];
  const open = new Set<Client>();
  const note = (client: Client): void => {
    open.add(client);
    client.once('end', () => open.delete(client));
  };
  ofPool().forEach(note);
  pool.on('connect', note);
  const clients: OpenClients = {
    destroy: () => {
      for (const client of new Set([...open, ...ofPool()])) destroySocket(client);
    },
  };
  known.set(pool, clients);
  return clients;
}
