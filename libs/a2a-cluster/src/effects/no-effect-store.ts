import { TurnUsageError } from '../errors/turn-usage.error.js';
import {
  type Dispatch,
  type EffectRequest,
  EffectStore,
  type EffectTurn,
  type RecordedEffect,
} from './effect-store.js';

/** Refuses effects: the app has a task store of its own, and provides no ledger beside it. */
export class NoEffectStore extends EffectStore {
  override dispatch({ taskId }: EffectTurn, { key }: EffectRequest): Promise<Dispatch> {
    return Promise.reject(
      new TurnUsageError(
        taskId,
        `turn.effect('${key}') needs a ledger: the tasks are kept by a VersionedTaskStore of the app's own, so provide an ` +
          'EffectStore beside it (extraProviders).',
      ),
    );
  }

  override settle(): Promise<void> {
    return Promise.resolve();
  }

  override unresolved(): Promise<RecordedEffect[]> {
    return Promise.resolve([]);
  }

  override prune(): Promise<number> {
    return Promise.resolve(0);
  }
}
