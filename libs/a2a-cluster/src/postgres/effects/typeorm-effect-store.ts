import type { ClusterDatabase } from '../connection/cluster-database.js';
import { LeaseLostError } from '../../errors/lease-lost.error.js';
import { prunedBy } from '../connection/statement.js';
import { effectStatements, type EffectTables } from './effect-statements.js';
import { type Dispatch, type EffectRequest, EffectStore, type EffectTurn } from '../../effects/effect-store.js';
import type { RecordedEffect, Settlement } from '../../effects/effect-store.js';

/** The ledger in the app's database, written under the leases of the same database. */
export class TypeOrmEffectStore extends EffectStore {
  private readonly sql: ReturnType<typeof effectStatements>;

  constructor(
    private readonly database: ClusterDatabase,
    tables: EffectTables,
    /** Whether the leases are in the same database, so that every write can check its own there. */
    private readonly fences: boolean,
  ) {
    super();
    this.sql = effectStatements(tables);
  }

  override async dispatch(turn: EffectTurn, { key, replay }: EffectRequest): Promise<Dispatch> {
    const { taskNo, taskId, turnId, attempt, generation = 0, canceling = false } = turn;
    const statement = this.isFenced(turn) ? this.sql.dispatch.fenced : this.sql.dispatch.unfenced;
    for (;;) {
      const params = { taskNo, turnId, key, replay, attempt, generation, canceling };
      const [row] = await statement.run(this.database, params);
      if (!row?.held) throw lost(taskId);
      if (row.dispatched) return { outcome: 'dispatched' };
      if (row.canceled && !canceling) return { outcome: 'canceled' };
      if (row.before) return { outcome: 'recorded', effect: row.before };
      // A try of ours whose answer was lost has committed while this one waited for it: its record is seen by the next.
    }
  }

  override async settle(turn: EffectTurn, key: string, settlement: Settlement): Promise<void> {
    const { taskNo, taskId, turnId, generation = 0 } = turn;
    const statement = this.isFenced(turn) ? this.sql.settle.fenced : this.sql.settle.unfenced;
    const result = settlement.state === 'succeeded' ? settlement.result : null;
    const params = { taskNo, turnId, key, generation, state: settlement.state, result };
    const rows = await statement.run(this.database, params);
    if (rows.length === 0) throw lost(taskId);
  }

  override unresolved(taskNo: number, turnId: string): Promise<RecordedEffect[]> {
    return this.sql.unresolved.run(this.database, { taskNo, turnId });
  }

  override prune(olderThanMs: number, limit: number): Promise<number> {
    return prunedBy(this.database, this.sql.prune, { olderThanMs, limit });
  }

  private isFenced({ generation }: EffectTurn): boolean {
    return this.fences && generation !== undefined;
  }
}

const lost = (taskId: string): Error =>
  new LeaseLostError(taskId, 'it has run out, or another replica has claimed or ended it');
