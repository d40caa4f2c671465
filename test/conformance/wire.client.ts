import { randomUUID } from 'node:crypto';
import type { WireStream } from './wire.stream.js';
import type { WireMessage, WireParams, WireTask } from './wire.types.js';

/** An error as each binding amounts to it. */
export interface WireError {
  /** JSON-RPC's code, HTTP's, or gRPC's. */
  code: number;
  message: string;
  /** What A2A adds to the error. */
  details: ErrorDetail[];
  /** Of the `ErrorInfo` among the details. */
  reason: string | undefined;
}

export interface ErrorDetail {
  '@type'?: string;
  reason?: string;
  domain?: string;
}

export interface WireAnswer<Result = unknown> {
  /** HTTP's, or gRPC's. */
  status: number;
  /** @throws where the operation failed */
  readonly result: Result;
  error: WireError | undefined;
}

/**
 * The one client of these tests, over whatever binding: it takes and shows A2A's objects as ProtoJSON, and hides nothing
 * but the binding.
 */
export abstract class WireClient {
  /** The same client with these headers, or metadata, on top. */
  abstract with(headers: Record<string, string>): this;

  abstract call<Result = unknown>(operation: string, params?: WireParams): Promise<WireAnswer<Result>>;

  /** Opens a stream. */
  abstract stream(operation: string, params: WireParams): Promise<WireStream>;

  /** The client of somebody else. */
  as(user: string): this {
    return this.with({ authorization: `Bearer ${user}` });
  }

  /** Sends a message to which the agent does what the prefix asks for; its text is the prefix too. */
  async send(prefix: string, more: Partial<WireMessage> = {}, params: WireParams = {}): Promise<WireAnswer<Sent>> {
    return this.call<Sent>('SendMessage', { ...params, message: messageOf(prefix, more) });
  }

  /** The task of a message. */
  async task(prefix: string, more: Partial<WireMessage> = {}, params: WireParams = {}): Promise<WireTask> {
    const { task } = (await this.send(prefix, more, params)).result;
    if (!task) throw new Error(`${prefix} was answered with a message`);
    return task;
  }
}

/** What SendMessage answers: one of the two. */
export interface Sent {
  task?: WireTask;
  message?: WireMessage;
}

export const messageOf = (prefix: string, more: Partial<WireMessage> = {}): WireMessage => ({
  messageId: `${prefix}-${randomUUID()}`,
  role: 'ROLE_USER',
  parts: [{ text: prefix }],
  ...more,
});

/** An answer of which the result is there, unless there is an error. */
export function answered<Result, More extends { status: number }>(
  more: More,
  result: unknown,
  error: Omit<WireError, 'reason'> | undefined,
): More & WireAnswer<Result> {
  return {
    ...more,
    error: error && { ...error, reason: error.details.find(({ reason }) => reason)?.reason },
    get result(): Result {
      if (error) throw new Error(`${error.code} ${error.message}`);
      return result as Result;
    },
  };
}
