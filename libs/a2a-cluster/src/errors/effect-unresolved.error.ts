/**
 * An outside action was dispatched before, nobody knows whether it took place, and its contract does not permit to
 * dispatch it again. Left to itself it ends the task FAILED, with this as the evidence.
 */
export class EffectUnresolvedError extends Error {
  override readonly name = 'EffectUnresolvedError';
  readonly code = 'A2A_EFFECT_UNRESOLVED';

  constructor(
    readonly taskId: string,
    readonly key: string,
    /** The contract that it was dispatched under: `never`, `idempotent` or `reconcile`. */
    readonly replay: string,
    /** The attempt of the turn that dispatched it. */
    readonly attempt: number,
    readonly dispatchedAt: Date,
    options?: ErrorOptions,
  ) {
    super(
      `Whether the outside action '${key}' of task ${taskId} took place is not known: it was dispatched at ` +
        `${dispatchedAt.toISOString()} in attempt ${attempt}, its outcome was not recorded, and its contract ` +
        `(replay: ${replay}) does not permit to dispatch it again.`,
      options,
    );
  }
}
