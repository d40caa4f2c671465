import type { MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';

/** Which fields of a message are messages themselves, each by its number. */
interface Fields {
  readonly [number: number]: Fields;
}

const NONE: Fields = {};
const VALUE: { [number: number]: Fields } = {};
const STRUCT: Fields = { 1: { 2: VALUE } };
VALUE[5] = STRUCT;
VALUE[6] = { 1: VALUE };

const MODERN_PART: Fields = { 4: VALUE, 5: STRUCT };
const LEGACY_PART: Fields = { 3: { 1: STRUCT }, 4: STRUCT };

/** What is there as often as a client likes in a message to an agent, in version 1.0 and in 0.3. */
const MODERN_REQUEST: Fields = { 2: { 5: MODERN_PART, 6: STRUCT }, 4: STRUCT };
const LEGACY_REQUEST: Fields = { 1: { 5: LEGACY_PART, 6: STRUCT }, 3: STRUCT };

/** Requests that were not decoded, since they hold too much. */
const oversized = new WeakSet<object>();

/** Whether a request was left undecoded. */
export const isOversized = (request: unknown): boolean =>
  typeof request === 'object' && request !== null && oversized.has(request);

/**
 * A service whose messages to the agent are decoded only where they hold no more values than the limit: in 10 MiB there is
 * room for a million parts, which take a second to decode.
 */
export function boundedRequests(definition: ServiceDefinition, maxValues: number): ServiceDefinition {
  const methods = Object.entries(definition).map(([name, method]): [string, MethodDefinition<unknown, unknown>] => {
    if (!/\/Send(Streaming)?Message$/.test(method.path)) return [name, method];
    const fields = method.path.startsWith('/lf.a2a.v1.') ? MODERN_REQUEST : LEGACY_REQUEST;
    const requestDeserialize = (bytes: Buffer): unknown => {
      if (!hasMoreFields(bytes, fields, maxValues)) return method.requestDeserialize(bytes);
      const request = method.requestDeserialize(Buffer.of()) as object;
      oversized.add(request);
      return request;
    };
    return [name, { ...method, requestDeserialize }];
  });
  return Object.fromEntries(methods);
}

/**
 * Whether protobuf's bytes hold more fields than so many, told without decoding them. It ends with the first one too many,
 * and leaves to the decoder what is not well-formed.
 */
export function hasMoreFields(bytes: Uint8Array, fields: Fields, limit: number): boolean {
  if (bytes.length <= limit) return false;
  let count = 0;
  const varintAt = { value: 0, next: 0 };
  const readVarint = (at: number): void => {
    let value = 0;
    let factor = 1;
    let next = at;
    for (; next < bytes.length; next += 1, factor *= 128) {
      const byte = bytes[next]!;
      value += (byte & 127) * factor;
      if (byte < 128) break;
    }
    varintAt.value = value;
    varintAt.next = next + 1;
  };
  const walk = (from: number, to: number, known: Fields): boolean => {
    for (let at = from; at < to;) {
      count += 1;
      if (count > limit) return true;
      readVarint(at);
      const tag = varintAt.value;
      at = varintAt.next;
      switch (tag % 8) {
        case 0:
          readVarint(at);
          at = varintAt.next;
          break;
        case 1:
          at += 8;
          break;
        case 2: {
          readVarint(at);
          const end = varintAt.next + varintAt.value;
          const inner = known[Math.floor(tag / 8)] ?? NONE;
          if (inner !== NONE && end <= to && walk(varintAt.next, end, inner)) return true;
          at = end;
          break;
        }
        case 5:
          at += 4;
          break;
        default:
          return false;
      }
    }
    return false;
  };
  return walk(0, bytes.length, fields);
}
