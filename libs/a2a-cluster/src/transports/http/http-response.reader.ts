import type { Socket } from 'node:net';
import { StreamResponse, Task } from '@a2a-js/sdk';
import type { Response } from 'express';
import { encodeTaskInTurns } from '../../tasks/task-event.codec.js';
import { AnswerReader, writePieces } from '../flow/answer-reader.js';
import type { SharedAnswer, SharedForm } from '../flow/shared-answer.js';
import type { UnsentBytes } from '../flow/unsent-bytes.js';
import { answerUnavailable } from './draining.js';

/** As JSON, and so in both of HTTP's transports. */
export const JSON_FORM: SharedForm = {
  name: 'json',
  task: async (task) => Buffer.from(await encodeTaskInTurns(task)),
  response: (response) => Buffer.from(JSON.stringify(StreamResponse.toJSON(response))),
};

/** The client of an HTTP exchange. Its response is written by the SDK, and what is shared here in its place. */
export class HttpResponseReader extends AnswerReader {
  private readonly drainListeners = new Set<() => void>();
  /** Something shared is being written. */
  private isBusy = false;
  private asksAnother = false;
  /** The SDK has ended the response meanwhile. */
  private isEnded = false;
  private readonly end: () => unknown;
  private readonly write: (piece: Buffer, sent: () => void) => unknown;

  constructor(
    private readonly res: Response,
    unsent: UnsentBytes,
    /** None for clients of version 0.3, whose form the SDK makes of each task anew. */
    readonly form: SharedForm | undefined,
  ) {
    super(unsent);
    const write = res.write.bind(res) as (...args: unknown[]) => boolean;
    const end = res.end.bind(res) as (...args: unknown[]) => Response;
    const json = res.json.bind(res);
    this.end = end;
    this.write = write;
    res.write = ((...args: unknown[]) => {
      const shared = this.prepared.length > 0 ? this.sharedIn(args[0]) : undefined;
      if (!shared) return write(...args);
      void this.writeShared(args[0] as string, shared);
      return false;
    }) as typeof res.write;
    res.end = ((...args: unknown[]) => {
      if (!this.isBusy) return end(...args);
      this.isEnded = true;
      return res;
    }) as typeof res.end;
    res.json = (body) => {
      if (this.asksAnother) answerUnavailable(res);
      if (this.prepared.length > 0 && this.answered(body)) return res;
      json(body);
      // The client has not taken it at once. It is behind until the response is done.
      if (!res.writableFinished && !res.destroyed) this.waits();
      return res;
    };
    res.once('close', () => this.isGone());
  }

  get destroyed(): boolean {
    return this.res.destroyed;
  }

  get writableNeedDrain(): boolean {
    return this.isBusy || this.res.writableNeedDrain;
  }

  get taken(): number {
    const { socket } = this.res;
    return (socket?.bytesWritten ?? 0) - queuedBy(socket);
  }

  protected get unsentBytes(): number {
    return this.res.writableLength;
  }

  override askAnother(): void {
    this.asksAnother = true;
  }

  once(event: 'close' | 'drain', listener: () => void): unknown {
    if (event === 'drain' && this.isBusy) return this.drainListeners.add(listener);
    return this.res.once(event, listener);
  }

  off(event: 'close' | 'drain', listener: () => void): unknown {
    this.drainListeners.delete(listener);
    return this.res.off(event, listener);
  }

  protected destroy(): void {
    this.res.destroy();
  }

  private sharedIn(text: unknown): SharedAnswer | undefined {
    if (typeof text !== 'string') return undefined;
    return this.takePrepared((shared) => text.includes(placeOf(shared)));
  }

  /** A whole answer, with something shared in it, as `res.json` would have sent it. False where there is none in it. */
  private answered(body: unknown): boolean {
    const text = JSON.stringify(body);
    const shared = this.sharedIn(text);
    if (!shared) return false;
    const { res } = this;
    const length = Buffer.byteLength(text) - Buffer.byteLength(placeOf(shared)) + shared.bytes.length;
    const type = res.get('Content-Type') ?? 'application/json';
    res.set('Content-Type', type.includes('charset') ? type : `${type}; charset=utf-8`);
    res.set('Content-Length', String(length));
    this.isEnded = true;
    void this.writeShared(text, shared);
    return true;
  }

  private async writeShared(text: string, shared: SharedAnswer): Promise<void> {
    this.isBusy = true;
    this.unsent.enter(this, 0); // what is shared has its room
    const [before, after] = text.split(placeOf(shared), 2) as [string, string];
    await writePieces([Buffer.from(before), shared.bytes, Buffer.from(after)], (piece) => this.sent(piece));
    this.isBusy = false;
    this.waitsNoMore();
    this.letGo();
    if (this.isEnded && !this.res.destroyed) this.end();
    for (const listener of [...this.drainListeners]) listener();
    this.drainListeners.clear();
  }

  private sent(piece: Buffer): Promise<boolean> {
    const { res } = this;
    if (res.destroyed) return Promise.resolve(false);
    return new Promise((resolve) => {
      const done = (): void => {
        res.off('close', done);
        resolve(!res.destroyed);
      };
      res.once('close', done);
      this.write(piece, done);
    });
  }
}

/** A stand-in as JSON writes it: the place for the true bytes. */
const placeOf = ({ kind, standIn }: SharedAnswer): string => {
  const task = JSON.stringify(Task.toJSON(standIn));
  return kind === 'task' ? task : `{"task":${task}}`;
};

/** The bytes that a socket has got and the system has not taken yet. Node counts them as written. */
const queuedBy = (socket: Socket | null): number =>
  (socket as unknown as { _handle?: { writeQueueSize?: number } } | null)?._handle?.writeQueueSize ?? 0;
