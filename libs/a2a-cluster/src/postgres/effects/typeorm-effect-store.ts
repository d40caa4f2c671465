import type { ClusterDatabase } from '../connection/cluster-database.js';
import { LeaseLostError } from '../../errors/lease-lost.error.js';
import {
  dispatchStatement,
  type EffectTables,
  pruneEffectsStatement,
  settleStatement,
  unresolvedStatement,
} from './effect-statements.js';
import { type Dispatch, type EffectRequest, EffectStore, type EffectTurn } from '../../effects/effect-store.js';
import type { RecordedEffect, Settlement } from '../../effects/effect-store.js';

/** bigint columns arrive as strings, times as text: apps parse them their own way. */
export type RecordedRow = Omit<RecordedEffect, 'key' | 'generation' | 'dispatchedAt'> & {
  generation: string;
  dispatchedAt: string;
};

type DispatchRow = { held: boolean; canceled: boolean; dispatched: boolean } & (RecordedRow | { state: null });

/** The ledger in the app's database, written under the leases of the same database. */
export class TypeOrmEffectStore extends EffectStore {
  constructor(
    /** By it a lease store knows that it shares these transactions. */
    readonly database: ClusterDatabase,
    private readonly tables: EffectTables,
    /** Whether the leases are in the same database, so that every write can check its own there. */
    private readonly fences: boolean,
  ) {
    super();
  }

  override async dispatch(turn: EffectTurn, { key, replay }: EffectRequest): Promise<Dispatch> {
    const { taskNo, taskId, turnId, attempt, generation, canceling = false } = turn;
    const params = [taskNo, turnId, key, replay, attempt, generation ?? 0, canceling];
    const statement = dispatchStatement(this.tables, this.isFenced(turn));
    for (;;) {
      const [row] = await this.database.query<DispatchRow>(statement, params);
      if (!row?.held) throw lost(taskId);
      if (row.dispatched) return { outcome: 'dispatched' };
      if (row.canceled && !canceling) return { outcome: 'canceled' };
      if (row.state !== null) return { outcome: 'recorded', effect: recordedEffect(key, row) };
      // A try of ours whose answer was lost has committed while this one waited for it: its record is seen by the next.
    }
  }

  override async settle(turn: EffectTurn, key: string, settlement: Settlement): Promise<void> {
    const { taskNo, taskId, turnId, generation } = turn;
    const result = settlement.state === 'succeeded' ? settlement.result : null;
    const params = [taskNo, turnId, key, settlement.state, result, generation ?? 0];
    const rows = await this.database.query(settleStatement(this.tables, this.isFenced(turn)), params);
    if (rows.length === 0) throw lost(taskId);
  }

  override async unresolved(taskNo: number, turnId: string): Promise<RecordedEffect[]> {
    const statement = unresolvedStatement(this.tables);
    const rows = await this.database.query<RecordedRow & { key: string }>(statement, [taskNo, turnId]);
    return rows.map(({ key, ...row }) => recordedEffect(key, row));
  }

  override async prune(olderThanMs: number, limit: number): Promise<number> {
    const [row] = await this.database.query<{ pruned: number }>(pruneEffectsStatement(this.tables), [
      olderThanMs,
      limit,
    ]);
    return row?.pruned ?? 0;
  }

  private isFenced({ generation }: EffectTurn): boolean {
    return this.fences && generation !== undefined;
  }
}

export function recordedEffect(key: string, row: RecordedRow): RecordedEffect {
  const { state, replay, attempt, result } = row;
  const [generation, dispatchedAt] = [Number(row.generation), new Date(row.dispatchedAt)];
  return { key, state, replay, attempt, generation, dispatchedAt, result };
}

const lost = (taskId: string): Error =>
  new LeaseLostError(taskId, 'it has run out, or another replica has claimed or ended it');
