import { EffectResultError } from '../errors/effect-result.error.js';

/**
 * The JSON of a result, which reads back as the same value; null for nothing. Throws {@link EffectResultError} where it
 * would not: an attempt that is given the recorded result must see what the first one saw.
 */
export function encodeResult(key: string, result: unknown): string | null {
  if (result === undefined) return null;
  check(key, result, 'result', []);
  return JSON.stringify(result);
}

export const decodeResult = (text: string | null): unknown => (text === null ? undefined : JSON.parse(text));

function check(key: string, value: unknown, path: string, above: unknown[]): void {
  const refuse = (found: string): never => {
    throw new EffectResultError(key, path, found);
  };
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return;
    case 'number':
      if (!Number.isFinite(value)) refuse(String(value));
      return;
    case 'object':
      break;
    default:
      refuse(typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`);
  }
  if (value === null) return;
  if (above.includes(value)) refuse('a reference to what contains it');
  const inside = [...above, value];
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) check(key, item, `${path}[${at}]`, inside);
    return;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  // By its shape, not by identity: a plain object of another realm (vm, jest) has another Object.prototype.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    refuse(`an instance of ${(value as object).constructor?.name || 'a class'}`);
  }
  for (const [name, item] of Object.entries(value as object)) {
    // JSON leaves out what is undefined; it reads back as undefined all the same.
    if (item !== undefined) check(key, item, `${path}.${name}`, inside);
  }
}
