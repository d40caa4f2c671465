import { LeaseLostError } from '../errors/lease-lost.error.js';
import type { LeaseStore } from '../leases/lease-store.js';
import {
  type Dispatch,
  type EffectRequest,
  EffectStore,
  type EffectTurn,
  type RecordedEffect,
  type Settlement,
} from './effect-store.js';

/**
 * The ledger beside a lease store that does not share its transactions: the lease is checked first, then the ledger is
 * written. A lease that is claimed between the two is noticed one step too late.
 */
export class OrderedEffectStore extends EffectStore {
  constructor(
    private readonly effects: EffectStore,
    private readonly leases: LeaseStore,
  ) {
    super();
  }

  override async dispatch(turn: EffectTurn, effect: EffectRequest): Promise<Dispatch> {
    if ((await this.check(turn)) && !turn.canceling) return { outcome: 'canceled' };
    return this.effects.dispatch(turn, effect);
  }

  override async settle(turn: EffectTurn, key: string, settlement: Settlement): Promise<void> {
    await this.check(turn);
    await this.effects.settle(turn, key, settlement);
  }

  override unresolved(taskNo: number, turnId: string): Promise<RecordedEffect[]> {
    return this.effects.unresolved(taskNo, turnId);
  }

  override prune(olderThanMs: number, limit: number): Promise<number> {
    return this.effects.prune(olderThanMs, limit);
  }

  /** Whether the task is to be canceled. */
  private async check({ taskId, generation }: EffectTurn): Promise<boolean> {
    if (generation === undefined) return false;
    const { lost, cancelRequested } = await this.leases.inspect([generation]);
    if (lost.length > 0) throw new LeaseLostError(taskId, 'another replica has claimed or ended it');
    return cancelRequested.length > 0;
  }
}
