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
  if (typeof value !== 'object' || value === null) return;
  if (above.includes(value)) refuse('a reference to what contains it');
  const inside = [...above, value];
  if (!isPlain(value)) refuse(`an instance of ${value.constructor?.name || 'a class'}`);
  if (Object.getOwnPropertySymbols(value).length > 0) refuse('an object with a symbol as a key');
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) check(key, item, `${path}[${at}]`, inside);
    if (Object.keys(value).length > value.length) refuse('an array with more than its items');
    return;
  }
  for (const [name, item] of Object.entries(value)) {
    // JSON leaves out what is undefined; it reads back as undefined all the same.
    if (item !== undefined) check(key, item, `${path}.${name}`, inside);
  }
}

/** By its shape, not by identity: a plain object of another realm (vm, jest) has another Object.prototype. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (Array.isArray(value)) return Array.isArray(prototype);
  if (prototype === null) return true;
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, 'hasOwnProperty');
}
