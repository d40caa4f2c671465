import type { Share, SharedAnswer, SharedForm } from './shared-answer.js';
import type { StreamReader } from './response-flow.js';
import type { Common, UnsentBytes, WaitingReader } from './unsent-bytes.js';

/** A client of ours: what is held for it, and given back once it has taken it or is gone. */
export abstract class AnswerReader implements StreamReader, WaitingReader {
  /** Shared answers that the SDK is about to write, each in the place of its stand-in. */
  protected readonly prepared: Share[] = [];
  private readonly held: Held[] = [];

  constructor(protected readonly unsent: UnsentBytes) {}

  /** Undefined where each client gets bytes of its own. */
  abstract readonly form: SharedForm | undefined;
  abstract readonly taken: number;
  abstract readonly destroyed: boolean;
  abstract readonly writableNeedDrain: boolean;
  /** The bytes that were written and not sent yet. */
  protected abstract readonly unsentBytes: number;

  abstract once(event: 'close' | 'drain', listener: () => void): unknown;
  abstract off(event: 'close' | 'drain', listener: () => void): unknown;
  protected abstract destroy(): void;

  /** The SDK is about to write this. */
  prepare(share: Share): void {
    if (this.destroyed) share.release();
    else this.prepared.push(share);
  }

  /** Until it has taken what is written next. */
  hold(held: Held): void {
    if (this.destroyed) held.release();
    else this.held.push(held);
  }

  get isHolding(): boolean {
    return this.held.length > 0;
  }

  letGo(): void {
    for (const held of this.held.splice(0)) held.release();
  }

  waits(common?: Common): void {
    this.unsent.enter(this, this.unsentBytes, common);
  }

  waitsNoMore(): void {
    this.unsent.leave(this);
  }

  askAnother(): void {
    // Over gRPC the status of the error says it.
  }

  cutOff(): void {
    this.isGone();
    this.destroy();
  }

  /** Nothing more will be taken. */
  protected isGone(): void {
    this.waitsNoMore();
    this.letGo();
    for (const share of this.prepared.splice(0)) share.release();
  }

  /** The prepared answer whose stand-in is in what is about to be written. It is held from here on. */
  protected takePrepared(isIn: (answer: SharedAnswer) => boolean): SharedAnswer | undefined {
    const at = this.prepared.findIndex(({ answer }) => isIn(answer));
    if (at < 0) return undefined;
    const [share] = this.prepared.splice(at, 1);
    this.hold(share!);
    return share!.answer;
  }
}

/** A room, or a share of one. */
interface Held {
  release(): void;
}

/**
 * How much of what is shared is written at once: small enough that a client's progress shows, and TLS copies little.
 */
const PIECE_BYTES = 128 * 1024;

/**
 * Writes parts by reference, piece by piece, each when the one before has been sent.
 *
 * @param write writes a piece and calls back when it has been sent, or never will be
 * @returns whether all of them were
 */
export async function writePieces(
  parts: readonly Buffer[],
  write: (piece: Buffer) => Promise<boolean>,
): Promise<boolean> {
  for (const part of parts) {
    for (let at = 0; at < part.length; at += PIECE_BYTES) {
      if (!(await write(part.subarray(at, at + PIECE_BYTES)))) return false;
    }
  }
  return true;
}
