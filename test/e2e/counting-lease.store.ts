import { Injectable } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { type ClaimedLease, LeaseStore, type RenewedLease } from 'nestjs-a2a-cluster/stores';
import type { DataSource } from 'typeorm';

/** A lease store of a user's own, on the task store's own table, that counts what it is asked. */
@Injectable()
export class CountingLeaseStore extends LeaseStore {
  readonly calls = { renew: 0, claim: 0, release: 0, inspect: 0, close: 0 };

  constructor(@InjectDataSource() private readonly dataSource: DataSource) {
    super();
  }

  override async renew(holder: string, generations: readonly number[], ttlMs: number): Promise<RenewedLease[]> {
    this.calls.renew += 1;
    const [rows] = await this.dataSource.query<[{ generation: string }[], number]>(
      `UPDATE a2a_task_leases SET expires_at = clock_timestamp() + $3 * interval '1 millisecond'
        WHERE holder = $1 AND generation = ANY($2) RETURNING generation`,
      [holder, generations, ttlMs],
    );
    return rows.map(({ generation }) => ({ generation: Number(generation), cancelRequested: false }));
  }

  override claim(): Promise<ClaimedLease[]> {
    this.calls.claim += 1;
    return Promise.resolve([]);
  }

  override begin(): Promise<boolean> {
    return Promise.resolve(false);
  }

  override async release(generation: number): Promise<boolean> {
    this.calls.release += 1;
    await this.dataSource.query('DELETE FROM a2a_task_leases WHERE generation = $1', [generation]);
    return true;
  }

  override handOver(): Promise<boolean> {
    return Promise.resolve(false);
  }

  override putBack(): Promise<boolean> {
    return Promise.resolve(false);
  }

  override inspect(): Promise<{ cancelRequested: number[]; lost: number[] }> {
    this.calls.inspect += 1;
    return Promise.resolve({ cancelRequested: [], lost: [] });
  }

  override close(): Promise<void> {
    this.calls.close += 1;
    return Promise.resolve();
  }
}
