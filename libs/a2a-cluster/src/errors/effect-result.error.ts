/**
 * The result of an outside action cannot be recorded as JSON and read back the same. The action has taken place; its
 * outcome stays unresolved.
 */
export class EffectResultError extends Error {
  override readonly name = 'EffectResultError';
  readonly code = 'A2A_EFFECT_RESULT';

  constructor(
    readonly key: string,
    /** The place in the result, such as `result.items[2].when`. */
    readonly path: string,
    found: string,
  ) {
    super(
      `'${key}' returned a result that cannot be recorded: ${path} is ${found}. ` +
        'Return null, booleans, finite numbers, strings, arrays and plain objects of these, or nothing.',
    );
  }
}
