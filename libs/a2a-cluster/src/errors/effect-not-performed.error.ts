/**
 * Thrown by what `turn.effect` runs when it knows that the outside action did not take place: it was refused, or never
 * left. Any other error leaves the outcome unknown. An action that was not performed may be dispatched again.
 */
export class EffectNotPerformedError extends Error {
  override readonly name = 'EffectNotPerformedError';
  readonly code = 'A2A_EFFECT_NOT_PERFORMED';

  constructor(message = 'The outside action was not performed.', options?: ErrorOptions) {
    super(message, options);
  }
}
