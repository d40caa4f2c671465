import type { MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';

/** The fields of a message that are messages themselves, by number. */
class Fields {
  private readonly inner = new Map<number, Fields>();

  /** Returns itself. A message may hold itself, so fields can be added later. */
  with(number: number, fields: Fields): this {
    this.inner.set(number, fields);
    return this;
  }

  get(number: number): Fields | undefined {
    return this.inner.get(number);
  }
}

const VALUE = new Fields();
const STRUCT = new Fields().with(1, new Fields().with(2, VALUE));
VALUE.with(5, STRUCT).with(6, new Fields().with(1, VALUE));

const MODERN_PART = new Fields().with(4, VALUE).with(5, STRUCT);
const LEGACY_PART = new Fields().with(3, new Fields().with(1, STRUCT)).with(4, STRUCT);

const messageOf = (part: Fields): Fields => new Fields().with(5, part).with(6, STRUCT);

/** The repeated fields of a message to an agent, in version 1.0 and in 0.3. */
const MODERN_REQUEST = new Fields().with(2, messageOf(MODERN_PART)).with(4, STRUCT);
const LEGACY_REQUEST = new Fields().with(1, messageOf(LEGACY_PART)).with(3, STRUCT);

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
function hasMoreFields(bytes: Uint8Array, fields: Fields, limit: number): boolean {
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
          const inner = known.get(Math.floor(tag / 8));
          if (inner && end <= to && walk(varintAt.next, end, inner)) return true;
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
