import { EventEmitter } from 'node:events';
import { constants } from 'node:http2';
import type { ServerWritableStream } from '@grpc/grpc-js';
import { AnswerReader, writePieces } from '../flow/answer-reader.js';
import type { SharedAnswer, SharedForm } from '../flow/shared-answer.js';
import type { UnsentBytes } from '../flow/unsent-bytes.js';
import type { CallStream } from './http2-stream-of-call.js';

/** Length of what comes before each message: whether it is compressed, and how long it is. */
const FRAME_HEAD = 5;

/** The client of a gRPC call. */
export class GrpcCallReader extends AnswerReader {
  private readonly events = new EventEmitter();
  /** Messages of a stream that were written and not sent. */
  private unsentMessages = 0;
  private sentPieces = 0;
  private isSharing = false;
  private isClosed = false;
  readonly form: SharedForm | undefined;

  /**
   * @param stream of HTTP/2 below the call, where it is known
   * @param form of what is shared. None for calls of version 0.3, whose form the SDK makes of each task anew.
   */
  constructor(
    private readonly stream: CallStream | undefined,
    unsent: UnsentBytes,
    form: SharedForm | undefined,
  ) {
    super(unsent);
    this.form = stream && form;
    stream?.once('close', () => this.isGone());
    if (this.form) this.writeShares(stream!);
  }

  /**
   * A call that is answered by a stream. What is written to it is buffered by number, 16 messages of any size, before it
   * says that it is full; so here it is full until what was written has been sent.
   */
  paced(call: ServerWritableStream<unknown, unknown>): this {
    const write = call.write.bind(call) as (message: unknown, sent: () => void) => boolean;
    call.write = ((message: unknown) => {
      this.unsentMessages += 1;
      return write(message, () => {
        this.unsentMessages -= 1;
        this.sentPieces += 1;
        if (this.unsentMessages === 0) this.events.emit('drain');
      });
    }) as typeof call.write;
    // A client that cancels, a deadline that passes and a connection that breaks destroy the call, as its end does.
    call.once('close', () => {
      this.isClosed = true;
      this.isGone();
      this.events.emit('close');
    });
    return this;
  }

  /** A call that has been given its one answer: what it has not taken of it is counted until it has, or is gone. */
  answered(): void {
    if (this.isSharing || this.destroyed || !this.stream || this.stream.writableLength === 0) return;
    this.waits();
  }

  get destroyed(): boolean {
    return this.isClosed || this.stream?.destroyed === true;
  }

  get writableNeedDrain(): boolean {
    return this.unsentMessages > 0;
  }

  get taken(): number {
    return this.sentPieces;
  }

  protected get unsentBytes(): number {
    return this.stream?.writableLength ?? 0;
  }

  once(event: 'close' | 'drain', listener: () => void): unknown {
    return this.events.once(event, listener);
  }

  off(event: 'close' | 'drain', listener: () => void): unknown {
    return this.events.off(event, listener);
  }

  /** The client hears RESOURCE_EXHAUSTED, as far as it hears anything. */
  protected destroy(): void {
    const { stream } = this;
    if (!stream || stream.destroyed) return;
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    // Its reservations are released with it, but not at once: the client might never hear of it.
    setImmediate(() => stream.destroy());
  }

  protected override isGone(): void {
    this.isSharing = false;
    super.isGone();
  }

  /**
   * @grpc/grpc-js copies each message into a frame: one with a stand-in is small, and what is shared is written for it.
   */
  private writeShares(stream: CallStream): void {
    const write = stream.write.bind(stream);
    stream.write = (frame, sent) => {
      const answer =
        this.prepared.length > 0 ? this.takePrepared(({ id }) => frame.includes(id, FRAME_HEAD)) : undefined;
      if (!answer) return write(frame, sent);
      void this.writeShared(framed(frame, answer), write, sent);
      return false;
    };
  }

  private async writeShared(
    parts: readonly Buffer[],
    write: CallStream['write'],
    sent: (error?: Error | null) => void,
  ): Promise<void> {
    this.isSharing = true;
    this.unsent.enter(this, 0); // what is shared has its room
    const piece = (bytes: Buffer): Promise<boolean> =>
      new Promise((resolve) => {
        if (this.destroyed) return resolve(false);
        const done = (): void => {
          this.stream!.off('close', done);
          this.sentPieces += 1;
          resolve(!this.destroyed);
        };
        this.stream!.once('close', done);
        write(bytes, done);
      });
    const isWhole = await writePieces(parts, piece);
    this.isSharing = false;
    this.waitsNoMore();
    this.letGo();
    if (isWhole) sent();
  }
}

/** The frame of a message with a stand-in, as the frame of the message with the true bytes. */
function framed(frame: Buffer, { id, kind, bytes }: SharedAnswer): Buffer[] {
  // The stand-in is its id behind a tag and a length; what is before it says that a task follows, and how long it is.
  const before = frame.indexOf(id) - 2 - FRAME_HEAD;
  const tag = kind === 'task' && before > 0 ? Buffer.from([frame[FRAME_HEAD]!, ...varint(bytes.length)]) : Buffer.of();
  const head = Buffer.alloc(FRAME_HEAD);
  head.writeUInt32BE(tag.length + bytes.length, 1);
  return [Buffer.concat([head, tag]), bytes];
}

/** A length as protobuf writes it. */
function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return [...bytes, rest];
}
