import { Injectable } from '@nestjs/common';
import { isPassing } from '../connection/database-errors.js';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import { type ClaimedLease, type ClaimRequest, LeaseStore, type RenewedLease } from '../../leases/lease-store.js';
import { prunedBy, type Statement } from '../connection/statement.js';
import { leaseStatements, type LookedLease } from './lease-statements.js';
import { StaticOptions } from '../../options/static.options.js';
import { DatabaseAccess } from '../connection/database-access.js';
import { tablesOf } from '../schema/table-names.js';

/**
 * The part of the TTL that a look at the leases may take. A locked table makes it wait, and a renewal does not need it.
 */
const LOOK = 0.1;

/**
 * How old a lease is, as a part of the TTL, when its replica must know of it or has lost it: its acquisition was answered by
 * then, or nobody waits for the answer any more.
 */
const KNOWN = 0.9;

/** Leases in the app's database, beside the tasks: acquired and released in the transactions of their events. */
@Injectable()
export class TypeOrmLeaseStore extends LeaseStore {
  private readonly database: ClusterDatabase;
  private readonly agent: string;
  private readonly sql: ReturnType<typeof leaseStatements>;
  /** Of each holder, since when its row had not run out at the last look. */
  private readonly looked = new Map<string, string>();
  /** Monotonic time of the next look for leases that their holder does not know of. */
  private nextDisownAt = -Infinity;

  constructor(access: DatabaseAccess, { agentId }: StaticOptions) {
    super();
    this.database = access.require();
    this.agent = agentId;
    this.sql = leaseStatements(tablesOf(this.database.dataSource));
  }

  override async renew(
    holder: string,
    generations: readonly number[],
    ttlMs: number,
    timeoutMs = this.database.maxTimeoutMs,
  ): Promise<RenewedLease[] | undefined> {
    const begunAt = performance.now();
    const leftMs = (): number => Math.max(1, timeoutMs - (performance.now() - begunAt));
    const renewal = (ms = leftMs()) => ({ timeoutMs: ms, lane: 'renewal' as const });
    let [row] = await this.sql.renew.run(this.database, { holder, ttlMs }, renewal());
    row ??= (await this.sql.register.run(this.database, { holder, ttlMs, generations }, renewal()))[0];
    const { unbroken, renewedAt } = row!;
    if (generations.length === 0) return [];
    let rows: LookedLease[];
    try {
      rows = await this.sql.look.run(this.database, { holder, generations }, renewal(Math.min(leftMs(), ttlMs * LOOK)));
    } catch (error) {
      // Since the last look the row has not run out, so nobody has claimed what follows it.
      if (this.looked.get(holder) === unbroken && isPassing(error)) return undefined;
      throw error;
    }
    this.looked.set(holder, unbroken);
    this.disown(holder, generations, { renewedAt, begunAt, ttlMs });
    const said = new Map(rows.map(({ generation, lost }) => [generation, lost]));
    return generations.flatMap((generation) =>
      said.get(generation) === true ? [] : [{ generation, cancelRequested: said.has(generation) }],
    );
  }

  /**
   * Beside the renewals, and none of them waits for it: it reads the whole table. Where it fails the next one follows.
   */
  private disown(
    holder: string,
    generations: readonly number[],
    { renewedAt, begunAt, ttlMs }: { renewedAt: string; begunAt: number; ttlMs: number },
  ): void {
    const now = performance.now();
    if (now < this.nextDisownAt) return;
    const everyMs = ttlMs * (1 - KNOWN);
    this.nextDisownAt = now + everyMs;
    // Both lists are as of the begin of the renewal: the leases that the replica holds, and those that it must know of.
    const marginMs = everyMs - (now - begunAt);
    this.control(this.sql.disown, { holder, generations, renewedAt, marginMs }).catch(() => undefined);
  }

  override async claim(request: ClaimRequest): Promise<ClaimedLease[]> {
    const { scope, endingAfterAttempts, withRequest = true, ...which } = request;
    return this.control(this.sql.claim, {
      ...which,
      agent: this.agent,
      tenant: scope?.tenant,
      owner: scope?.owner,
      taskId: scope?.taskId,
      endingAfterAttempts,
      withRequest,
    });
  }

  override async begin(generation: number): Promise<boolean> {
    const rows = await this.control(this.sql.begin, { generation });
    return rows.length === 1;
  }

  override async release(generation: number): Promise<boolean> {
    const rows = await this.control(this.sql.release, { generation });
    return rows.length === 1;
  }

  override async handOver(generation: number, afterMs: number): Promise<boolean> {
    const rows = await this.control(this.sql.handOver, { generation, afterMs });
    return rows.length === 1;
  }

  override async putBack(claimed: ClaimedLease, afterMs: number): Promise<boolean> {
    const { generation, lastHolder, lastRenewedAt } = claimed;
    const rows = await this.control(this.sql.putBack, {
      generation,
      afterMs,
      holder: lastHolder,
      renewedAt: lastRenewedAt.toISOString(),
    });
    return rows.length === 1;
  }

  override async inspect(generations: readonly number[]): Promise<{ cancelRequested: number[]; lost: number[] }> {
    const rows = await this.control(this.sql.inspect, { generations });
    const found = new Map(rows.map(({ generation, cancelRequested }) => [generation, cancelRequested]));
    return {
      cancelRequested: generations.filter((generation) => found.get(generation) === true),
      lost: generations.filter((generation) => !found.has(generation)),
    };
  }

  override prune(olderThanMs: number, limit: number): Promise<number> {
    return prunedBy(this.database, this.sql.pruneReplicas, { olderThanMs, limit });
  }

  /** There is nothing to close: the connections are the database's. */
  override close(): Promise<void> {
    return Promise.resolve();
  }

  /** What keeps turns in order finds a connection whatever turns and readers are at. */
  private control<P extends object, R extends object>(statement: Statement<P, R>, params: P): Promise<R[]> {
    return statement.run(this.database, params, { lane: 'control' });
  }
}
