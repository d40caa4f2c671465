import type { EffectStore, RecordedEffect, ReplayContract } from './effect-store.js';
import { idempotencyKey } from './turn-effects.js';

/** Key of the unresolved effects in the metadata of the status message that ends a task FAILED. */
export const EFFECTS_METADATA_KEY = 'a2a-cluster/unresolved-effects';

/** An outside action of a turn that was dispatched, and whose outcome is not known. */
export interface UnresolvedEffect {
  key: string;
  replay: ReplayContract;
  /** The attempt that dispatched it last. */
  attempt: number;
  dispatchedAt: Date;
  /** The contract that it was dispatched with. */
  idempotencyKey: string;
}

/** The actions of a turn, over all its attempts, whose outcome is not known. */
export async function unresolvedEffects(
  store: EffectStore,
  taskNo: number,
  turnId: string,
): Promise<UnresolvedEffect[]> {
  const effects = await store.unresolved(taskNo, turnId);
  return effects.filter(isOutside).map(({ key, replay, attempt, dispatchedAt }) => ({
    key,
    replay,
    attempt,
    dispatchedAt,
    idempotencyKey: idempotencyKey(turnId, key),
  }));
}

/** Names them in a FAILED status: a sentence for people, metadata for programs. Empty if there are none. */
export function evidenceOf(effects: readonly UnresolvedEffect[]): { text: string; metadata: Record<string, unknown> } {
  if (effects.length === 0) return { text: '', metadata: {} };
  const named = effects.map(
    ({ key, replay, attempt, dispatchedAt }) =>
      `'${key}' (dispatched at ${dispatchedAt.toISOString()} in attempt ${attempt}, replay: ${replay})`,
  );
  return {
    text: ` Whether these outside actions took place is not known: ${named.join(', ')}.`,
    metadata: {
      [EFFECTS_METADATA_KEY]: effects.map((effect) => ({ ...effect, dispatchedAt: effect.dispatchedAt.toISOString() })),
    },
  };
}

/** A transaction is never unresolved: it is recorded as a part of itself. */
const isOutside = (effect: RecordedEffect): effect is RecordedEffect & { replay: ReplayContract } =>
  effect.replay !== 'transaction';
