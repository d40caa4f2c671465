import type { ClusterDatabase } from '../database/cluster-database.js';
import type { DedicatedConnection } from '../database/dedicated-connection.js';
import { type ClaimedLease, type ClaimRequest, LeaseStore, type RenewedLease } from './lease-store.js';
import {
  claimStatement,
  inspectStatement,
  type LeaseTables,
  releaseStatement,
  renewStatement,
} from './lease-statements.js';

/** bigint columns arrive as strings (a sequence stays far below 2^53), times as text: apps parse them their own way. */
type Raw<T, K extends keyof T> = Omit<T, K> & Record<K, string>;

/** Leases in the app's database, beside the tasks: acquired and released in the transactions of their events. */
export class TypeOrmLeaseStore extends LeaseStore {
  /** Renewals have a connection of their own: users' transactions cannot starve them. */
  private readonly renewals: DedicatedConnection;
  private readonly renewSql: string;
  private readonly claimSql: string;
  private readonly releaseSql: string;
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
    this.inspectSql = inspectStatement(tables);
  }

  override async renew(holder: string, generations: readonly number[], ttlMs: number): Promise<RenewedLease[]> {
    const rows = await this.renewals.query<Raw<RenewedLease, 'generation'>>(
      this.renewSql,
      [holder, generations, ttlMs],
      this.renewalTimeoutMs,
    );
    return rows.map((row) => ({ ...row, generation: Number(row.generation) }));
  }

  override async claim({ holder, ttlMs, limit, taskNo }: ClaimRequest): Promise<ClaimedLease[]> {
    const rows = await this.database.query<Raw<ClaimedLease, 'generation' | 'taskNo' | 'lastRenewedAt'>>(
      this.claimSql,
      [this.agent, holder, ttlMs, limit, taskNo ?? null],
    );
    return rows.map((row) => ({
      ...row,
      generation: Number(row.generation),
      taskNo: Number(row.taskNo),
      lastRenewedAt: new Date(row.lastRenewedAt),
    }));
  }

  override async release(taskNo: number, generation: number): Promise<boolean> {
    const rows = await this.database.query(this.releaseSql, [taskNo, generation]);
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
