import { LeaseLostError } from '../errors/lease-lost.error.js';
import {
  type Dispatch,
  type EffectRequest,
  EffectStore,
  type EffectTurn,
  type RecordedEffect,
  type Settlement,
} from '../effects/effect-store.js';

/** The ledger of outside actions in the memory of this process: for tests. It shows them what a turn has done. */
export class InMemoryEffectStore extends EffectStore {
  private readonly recorded = new Map<string, RecordedEffect>();

  override dispatch(turn: EffectTurn, { key, replay }: EffectRequest): Promise<Dispatch> {
    const id = idOf(turn, key);
    const before = this.recorded.get(id);
    const permitted =
      !before ||
      before.state === 'not_performed' ||
      (before.state === 'dispatched' && before.replay === 'idempotent' && replay === 'idempotent');
    if (!permitted) return Promise.resolve({ outcome: 'recorded', effect: { ...before } });
    const { attempt, generation = 0 } = turn;
    const dispatchedAt = new Date();
    this.recorded.set(id, { key, state: 'dispatched', replay, attempt, generation, dispatchedAt, result: null });
    return Promise.resolve({ outcome: 'dispatched' });
  }

  override settle(turn: EffectTurn, key: string, settlement: Settlement): Promise<void> {
    const effect = this.recorded.get(idOf(turn, key));
    if (effect?.state !== 'dispatched' && effect?.state !== settlement.state) {
      return Promise.reject(new LeaseLostError(turn.taskId, 'another attempt has settled its effect'));
    }
    Object.assign(effect, settlement);
    return Promise.resolve();
  }

  override unresolved(taskNo: number, turnId: string): Promise<RecordedEffect[]> {
    return Promise.resolve(this.of({ taskNo, turnId }).filter(({ state }) => state === 'dispatched'));
  }

  /** Nothing: what is kept in memory goes with the test. */
  override prune(): Promise<number> {
    return Promise.resolve(0);
  }

  /** All effects of a turn, as recorded. */
  of({ taskNo, turnId }: Pick<EffectTurn, 'taskNo' | 'turnId'>): RecordedEffect[] {
    const prefix = idOf({ taskNo, turnId }, '');
    return [...this.recorded].filter(([id]) => id.startsWith(prefix)).map(([, effect]) => ({ ...effect }));
  }
}

const idOf = ({ taskNo, turnId }: Pick<EffectTurn, 'taskNo' | 'turnId'>, key: string): string =>
  `${taskNo} ${turnId} ${key}`;
