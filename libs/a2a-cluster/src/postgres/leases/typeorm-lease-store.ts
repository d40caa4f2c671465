import { isPassing } from '../connection/database-errors.js';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import { type ClaimedLease, type ClaimRequest, LeaseStore, type RenewedLease } from '../../leases/lease-store.js';
import * as sql from './lease-statements.js';

/** bigint columns arrive as strings (a sequence stays far below 2^53), times as text: apps parse them their own way. */
type Raw<T, K extends keyof T> = Omit<T, K> & Record<K, string>;

type ClaimedRow = Omit<ClaimedLease, 'generation' | 'lastRenewedAt' | 'scope'> & {
  generation: string;
  lastRenewedAt: string;
} & ({ tenant: string; owner: string; taskId: string } | { tenant: null; owner: null; taskId: null });

/** What a renewal says of its replica's row. */
interface RenewalRow {
  unbroken: string;
  renewedAt: string;
}

/** One of the generations that a renewal was for, where there is something to say of it. */
interface LookRow {
  generation: string;
  lost: boolean;
}

/** What part of the TTL a look at the leases may take. It waits where a table is locked, and a renewal does not need it. */
const LOOK = 0.1;

/**
 * How old a lease is, as a part of the TTL, when its replica must know of it or has lost it: its acquisition was answered by
 * then, or nobody waits for the answer any more.
 */
const KNOWN = 0.9;

/** Leases in the app's database, beside the tasks: acquired and released in the transactions of their events. */
export class TypeOrmLeaseStore extends LeaseStore {
  private readonly renewSql: string;
  private readonly registerSql: string;
  private readonly lookSql: string;
  private readonly disownSql: string;
  private readonly claimSql: string;
  private readonly beginSql: string;
  private readonly releaseSql: string;
  private readonly handOverSql: string;
  private readonly putBackSql: string;
  private readonly inspectSql: string;
  private readonly pruneSql: string;
  /** Of each holder, since when its row had not run out at the last look. */
  private readonly looked = new Map<string, string>();
  /** Monotonic time of the next look for leases that their holder does not know of. */
  private nextDisownAt = -Infinity;

  constructor(
    private readonly database: ClusterDatabase,
    tables: sql.LeaseTables,
    private readonly agent: string,
  ) {
    super();
    this.renewSql = sql.renewStatement(tables);
    this.registerSql = sql.registerStatement(tables);
    this.lookSql = sql.lookStatement(tables);
    this.disownSql = sql.disownStatement(tables);
    this.claimSql = sql.claimStatement(tables);
    this.beginSql = sql.beginStatement(tables);
    this.releaseSql = sql.releaseStatement(tables);
    this.handOverSql = sql.handOverStatement(tables);
    this.putBackSql = sql.putBackStatement(tables);
    this.inspectSql = sql.inspectStatement(tables);
    this.pruneSql = sql.pruneReplicasStatement(tables);
  }

  override async renew(
    holder: string,
    generations: readonly number[],
    ttlMs: number,
    timeoutMs = this.database.maxTimeoutMs,
  ): Promise<RenewedLease[] | undefined> {
    const begunAt = performance.now();
    const leftMs = (): number => Math.max(1, timeoutMs - (performance.now() - begunAt));
    const ask = <R extends object>(statement: string, params: unknown[], ms: number): Promise<R[]> =>
      this.database.query<R>(statement, params, ms, 'renewal');
    let [row] = await ask<RenewalRow>(this.renewSql, [holder, ttlMs], leftMs());
    row ??= (await ask<RenewalRow>(this.registerSql, [holder, ttlMs, generations], leftMs()))[0];
    const { unbroken, renewedAt } = row!;
    if (generations.length === 0) return [];
    let rows: LookRow[];
    try {
      rows = await ask(this.lookSql, [holder, generations], Math.min(leftMs(), ttlMs * LOOK));
    } catch (error) {
      // Since the last look the row has not run out, so nobody has claimed what follows it.
      if (this.looked.get(holder) === unbroken && isPassing(error)) return undefined;
      throw error;
    }
    this.looked.set(holder, unbroken);
    this.disown(holder, generations, { renewedAt, begunAt, ttlMs });
    const said = new Map(rows.map(({ generation, lost }) => [Number(generation), lost]));
    return generations.flatMap((generation) =>
      said.get(generation) === true ? [] : [{ generation, cancelRequested: said.has(generation) }],
    );
  }

  /** Beside the renewals, and none of them waits for it: it reads the whole table. Where it fails the next one follows. */
  private disown(
    holder: string,
    generations: readonly number[],
    { renewedAt, begunAt, ttlMs }: { renewedAt: string; begunAt: number; ttlMs: number },
  ): void {
    const now = performance.now();
    if (now < this.nextDisownAt) return;
    const everyMs = ttlMs * (1 - KNOWN);
    this.nextDisownAt = now + everyMs;
    // What the replica holds is known as of the time at which the renewal began, and so is what it must know of by then.
    const marginMs = everyMs - (now - begunAt);
    this.control(this.disownSql, [holder, generations, renewedAt, marginMs]).catch(() => undefined);
  }

  override async claim(request: ClaimRequest): Promise<ClaimedLease[]> {
    const { holder, ttlMs, limit, scope, endingAfterAttempts = null, withRequest = true } = request;
    const { tenant = null, owner = null, taskId = null } = scope ?? {};
    const params = [this.agent, holder, ttlMs, limit, tenant, owner, taskId, endingAfterAttempts, withRequest];
    const rows = await this.control<ClaimedRow>(this.claimSql, params);
    return rows.map(({ generation, lastRenewedAt, tenant, owner, taskId, ...row }) => ({
      ...row,
      generation: Number(generation),
      lastRenewedAt: new Date(lastRenewedAt),
      scope: taskId === null ? undefined : { tenant, owner, taskId },
    }));
  }

  override async begin(generation: number): Promise<boolean> {
    const rows = await this.control(this.beginSql, [generation]);
    return rows.length === 1;
  }

  override async release(generation: number): Promise<boolean> {
    const rows = await this.control(this.releaseSql, [generation]);
    return rows.length === 1;
  }

  override async handOver(generation: number, afterMs: number): Promise<boolean> {
    const rows = await this.control(this.handOverSql, [generation, afterMs]);
    return rows.length === 1;
  }

  override async putBack(claimed: ClaimedLease, afterMs: number): Promise<boolean> {
    const { generation, lastHolder, lastRenewedAt } = claimed;
    const params = [generation, afterMs, lastHolder, lastRenewedAt.toISOString()];
    const rows = await this.control(this.putBackSql, params);
    return rows.length === 1;
  }

  override async inspect(generations: readonly number[]): Promise<{ cancelRequested: number[]; lost: number[] }> {
    const rows = await this.control<Raw<RenewedLease, 'generation'>>(this.inspectSql, [generations]);
    const found = new Map(rows.map((row) => [Number(row.generation), row.cancelRequested]));
    return {
      cancelRequested: generations.filter((generation) => found.get(generation) === true),
      lost: generations.filter((generation) => !found.has(generation)),
    };
  }

  override async prune(olderThanMs: number, limit: number): Promise<number> {
    const [row] = await this.database.query<{ pruned: number }>(this.pruneSql, [olderThanMs, limit]);
    return row?.pruned ?? 0;
  }

  /** There is nothing to close: the connections are the database's. */
  override close(): Promise<void> {
    return Promise.resolve();
  }

  /** What keeps turns in order finds a connection whatever turns and readers are at. */
  private control<R extends object>(statement: string, params: unknown[]): Promise<R[]> {
    return this.database.query<R>(statement, params, undefined, 'control');
  }
}
