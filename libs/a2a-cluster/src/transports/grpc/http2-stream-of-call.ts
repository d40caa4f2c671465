import type { ServerHttp2Stream } from 'node:http2';

/** The stream of HTTP/2 below a call, as far as it is used here. */
export type CallStream = Pick<ServerHttp2Stream, 'close' | 'destroy' | 'destroyed' | 'writableLength'> & {
  write(piece: Buffer, sent: (error?: Error | null) => void): unknown;
  once(event: 'close', listener: () => void): unknown;
  off(event: 'close', listener: () => void): unknown;
};

/**
 * The stream of HTTP/2 below a call. @grpc/grpc-js does not show it, and without it a call cannot be cut off, nor told how
 * far its client has read: undefined where a version keeps it elsewhere, and then calls hold bytes of their own.
 */
export function http2StreamOf(call: object): CallStream | undefined {
  let at: unknown = (call as { call?: unknown }).call;
  for (let depth = 0; depth < 10 && typeof at === 'object' && at !== null; depth += 1) {
    const { stream, nextCall } = at as { stream?: unknown; nextCall?: unknown };
    if (isStream(stream)) return stream;
    at = nextCall;
  }
  return undefined;
}

const isStream = (value: unknown): value is CallStream =>
  typeof value === 'object' &&
  value !== null &&
  ['close', 'destroy', 'write', 'once', 'off'].every((name) => typeof Reflect.get(value, name) === 'function') &&
  typeof Reflect.get(value, 'writableLength') === 'number';
