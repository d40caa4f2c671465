/**
 * How deep values may stand inside each other: far less than the call stack and PostgreSQL's parser bear, and more than
 * protobuf's own JSON parsers take (100).
 */
export const MAX_DEPTH = 256;

const AS_ANY_OBJECT = { value: () => '[object Object]' };

/**
 * Whether what a client sent, as JSON or over gRPC, can be worked with: false where it is nested deeper than {@link MAX_DEPTH}. Objects
 * whose members hide `toString` or `valueOf` are made to read as any other object does where a text is expected; the
 * SDK's codecs would fail on them.
 */
export function isHarmless(value: unknown, levels = MAX_DEPTH): boolean {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return true;
  if (levels === 0) return false;
  if (Object.hasOwn(value, 'toString') || Object.hasOwn(value, 'valueOf')) {
    Object.defineProperty(value, Symbol.toPrimitive, AS_ANY_OBJECT);
  }
  return Object.values(value).every((inner) => isHarmless(inner, levels - 1));
}
