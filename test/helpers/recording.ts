import { type StreamResponse, type Task, taskStateToJSON } from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';
import { onCleanUp } from './clean-up.js';
import { type SendOptions, stream, subscribe } from '../../tools/harness/client.js';
import { Deferred, within } from '../../tools/harness/wait.js';

/** How a recorded stream ended. */
export type RecordingEnd =
  /** The server closed it in order. */
  | { how: 'finished' }
  /** The test hung up. */
  | { how: 'disconnected' }
  /** Anything else: an A2A error, a broken connection. */
  | { how: 'failed'; error: unknown };

/**
 * A client that records a stream in the background, reading as fast as it can. What a test leaves open is hung up when
 * its file is done.
 */
export class Recording {
  /** What has arrived so far, in order. */
  readonly responses: StreamResponse[] = [];
  /** Resolves when the stream ends; never rejects. */
  readonly ended: Promise<RecordingEnd>;
  private readonly listeners = new Set<() => void>();
  private end: RecordingEnd | undefined;

  private constructor(
    responses: AsyncIterable<StreamResponse>,
    private readonly connection: AbortController,
  ) {
    const forget = onCleanUp(() => this.disconnect().then(() => undefined));
    this.ended = this.record(responses).then((end) => {
      this.end = end;
      forget();
      this.listeners.forEach((listener) => listener());
      return end;
    });
  }

  /** Subscribes to a task. */
  static subscribe(client: Client, taskId: string): Recording {
    const connection = new AbortController();
    return new Recording(subscribe(client, taskId, connection.signal), connection);
  }

  /** Sends a text and records the answer. */
  static send(client: Client, text: string, options: Omit<SendOptions, 'signal'> = {}): Recording {
    const connection = new AbortController();
    return new Recording(stream(client, text, { ...options, signal: connection.signal }), connection);
  }

  /**
   * The first response, arrived already or yet to come, that the predicate accepts.
   *
   * @throws {Error} when the stream ends without it
   * @throws {WaitTimeoutError}
   */
  async waitFor(
    predicate: (response: StreamResponse, index: number) => boolean,
    timeoutMs = 10_000,
  ): Promise<StreamResponse> {
    const found = new Deferred<StreamResponse>();
    let seen = 0;
    const look = (): void => {
      for (; seen < this.responses.length; seen += 1) {
        const response = this.responses[seen];
        if (response && predicate(response, seen)) return found.resolve(response);
      }
      if (this.end) found.reject(new Error(`The stream ended without it: ${this.describe()}`));
    };
    this.listeners.add(look);
    try {
      look();
      return await within(found.promise, timeoutMs, () => `a response such as expected: ${this.describe()}`);
    } finally {
      this.listeners.delete(look);
    }
  }

  /** The task's first snapshot; on a new task's stream that is where its id comes from. */
  async task(timeoutMs = 10_000): Promise<Task> {
    const { payload } = await this.waitFor((response) => response.payload?.$case === 'task', timeoutMs);
    return payload?.value as Task;
  }

  /**
   * Everything that arrived, once the server has closed the stream in order.
   *
   * @throws what the stream failed with
   * @throws {WaitTimeoutError}
   */
  async finished(timeoutMs = 10_000): Promise<StreamResponse[]> {
    const end = await within(this.ended, timeoutMs, () => `the stream ends: ${this.describe()}`);
    if (end.how === 'failed') throw end.error;
    if (end.how === 'disconnected') throw new Error(`The test hung up itself: ${this.describe()}`);
    return this.responses;
  }

  /** Hangs up. */
  disconnect(): Promise<RecordingEnd> {
    this.connection.abort();
    return this.ended;
  }

  private async record(responses: AsyncIterable<StreamResponse>): Promise<RecordingEnd> {
    try {
      for await (const response of responses) {
        this.responses.push(response);
        this.listeners.forEach((listener) => listener());
      }
      return { how: 'finished' };
    } catch (error) {
      return this.connection.signal.aborted ? { how: 'disconnected' } : { how: 'failed', error };
    }
  }

  private describe(): string {
    const end = this.end ? this.end.how : 'still open';
    return `got ${this.responses.map(summaryOf).join(', ') || 'nothing'}; ${end}`;
  }
}

/** A response in a few words, for messages and comparisons: `task WORKING`, `artifact a1`, `status COMPLETED`. */
export function summaryOf({ payload }: StreamResponse): string {
  switch (payload?.$case) {
    case 'task':
      return `task ${stateName(payload.value)}`;
    case 'statusUpdate':
      return `status ${stateName(payload.value)}`;
    case 'artifactUpdate':
      return `artifact ${payload.value.artifact?.artifactId ?? ''}${payload.value.append ? ' append' : ''}`;
    case 'message':
      return `message ${payload.value.messageId}`;
    default:
      return 'nothing';
  }
}

/** State of a task or a status update by its name in the specification, without the prefix: `INPUT_REQUIRED`. */
export function stateName({ status }: Pick<Task, 'status'>): string {
  return status ? taskStateToJSON(status.state).replace('TASK_STATE_', '') : 'UNSPECIFIED';
}
