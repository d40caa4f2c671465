import type { ClusterDatabase } from '../database/cluster-database.js';
import type { DedicatedConnection } from '../database/dedicated-connection.js';
import { attemptFound, type ClaimedLease, type ClaimRequest, LeaseStore, type RenewedLease } from './lease-store.js';
import {
  claimStatement,
  handOverStatement,
  inspectStatement,
  type LeaseTables,
  putBackStatement,
  releaseStatement,
  renewStatement,
} from './lease-statements.js';

/** bigint columns arrive as strings (a sequence stays far below 2^53), times as text: apps parse them their own way. */
type Raw<T, K extends keyof T> = Omit<T, K> & Record<K, string>;

type ClaimedRow = Omit<ClaimedLease, 'generation' | 'lastRenewedAt' | 'scope'> & {
  generation: string;
  lastRenewedAt: string;
} & ({ tenant: string; owner: string; taskId: string } | { tenant: null; owner: null; taskId: null });

const ONLY_WITH_ITS_TASKS =
  "TypeOrmLeaseStore keeps leases of TypeOrmTaskStore's tasks only: replace both, or the LeaseStore alone.";

/** Leases in the app's database, beside the tasks: acquired and released in the transactions of their events. */
export class TypeOrmLeaseStore extends LeaseStore {
  /** Renewals have a connection of their own: users' transactions cannot starve them. */
  private readonly renewals: DedicatedConnection;
  private readonly renewSql: string;
  private readonly claimSql: string;
  private readonly releaseSql: string;
  private readonly handOverSql: string;
  private readonly putBackSql: string;
  private readonly inspectSql: string;

  constructor(
    private readonly database: ClusterDatabase,
    tables: LeaseTables,
    private readonly agent: string,
    private readonly renewalTimeoutMs: number,
  ) {
    super();
    this.renewals = database.dedicated();
    this.renewSql = renewStatement(tables);
    this.claimSql = claimStatement(tables);
    this.releaseSql = releaseStatement(tables);
    this.handOverSql = handOverStatement(tables);
    this.putBackSql = putBackStatement(tables);
    this.inspectSql = inspectStatement(tables);
  }

  /** With the tasks of the same database: they acquire and release in their own statements. */
  override sharesTransactions(tasks: object): boolean {
    return (tasks as { database?: unknown }).database === this.database;
  }

  override acquire(): Promise<never> {
    return Promise.reject(new Error(ONLY_WITH_ITS_TASKS));
  }

  override find(): Promise<never> {
    return Promise.reject(new Error(ONLY_WITH_ITS_TASKS));
  }

  override requestCancel(): Promise<never> {
    return Promise.reject(new Error(ONLY_WITH_ITS_TASKS));
  }

  override async renew(holder: string, generations: readonly number[], ttlMs: number): Promise<RenewedLease[]> {
    const rows = await this.renewals.query<Raw<RenewedLease, 'generation'>>(
      this.renewSql,
      [holder, generations, ttlMs],
      this.renewalTimeoutMs,
    );
    return rows.map((row) => ({ ...row, generation: Number(row.generation) }));
  }

  override async claim(request: ClaimRequest): Promise<ClaimedLease[]> {
    const { holder, ttlMs, limit, scope, endingAfterAttempts = null, withRequest = true } = request;
    const { tenant = null, owner = null, taskId = null } = scope ?? {};
    const params = [this.agent, holder, ttlMs, limit, tenant, owner, taskId, endingAfterAttempts, withRequest];
    const rows = await this.database.query<ClaimedRow>(this.claimSql, params);
    return rows.map(({ generation, lastRenewedAt, tenant, owner, taskId, ...row }) => ({
      ...row,
      generation: Number(generation),
      lastRenewedAt: new Date(lastRenewedAt),
      scope: taskId === null ? undefined : { tenant, owner, taskId },
    }));
  }

  override async release(generation: number): Promise<boolean> {
    const rows = await this.database.query(this.releaseSql, [generation]);
    return rows.length === 1;
  }

  override async handOver(generation: number, afterMs: number): Promise<boolean> {
    const rows = await this.database.query(this.handOverSql, [generation, afterMs]);
    return rows.length === 1;
  }

  override async putBack(claimed: ClaimedLease, afterMs: number): Promise<boolean> {
    const { generation, lastHolder, lastRenewedAt } = claimed;
    const found = [lastHolder, attemptFound(claimed), lastRenewedAt.toISOString()];
    const rows = await this.database.query(this.putBackSql, [generation, afterMs, ...found]);
    return rows.length === 1;
  }

  override async inspect(generations: readonly number[]): Promise<{ cancelRequested: number[]; lost: number[] }> {
    const rows = await this.database.query<Raw<RenewedLease, 'generation'>>(this.inspectSql, [generations]);
    const found = new Map(rows.map((row) => [Number(row.generation), row.cancelRequested]));
    return {
      cancelRequested: generations.filter((generation) => found.get(generation) === true),
      lost: generations.filter((generation) => !found.has(generation)),
    };
  }

  override close(): Promise<void> {
    return this.renewals.close();
  }
}
