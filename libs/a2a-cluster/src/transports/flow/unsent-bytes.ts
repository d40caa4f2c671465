import { Injectable } from '@nestjs/common';
import { GRPC_STATUS, GrpcStatusError } from '../../errors/grpc-status.error.js';
import { ResolvedOptions } from '../../options/cluster.options.js';

/** A client with something to take. */
export interface WaitingReader {
  /** Grows as the client takes what was written to it. */
  readonly taken: number;
  /** Ends the connection or the call, and gives back at once all that was held for it. */
  cutOff(): void;
}

/** A part of the bytes that may be held, until it is given back. */
export interface Room {
  readonly bytes: number;
  /** Gives it back; once more does nothing. */
  release(): void;
  /** It turned out to be so much. */
  resize(bytes: number): void;
}

/** Something that several waiting readers hold together, such as a batch of events that was read once for them. */
export interface Common {
  key: object;
  bytes: number;
}

interface Waiting {
  own: number;
  common: Common | undefined;
  taken: number;
  /** For how long it has taken nothing, in ms. */
  idleMs: number;
}

interface Asked {
  bytes: number;
  give: (room: Room) => void;
}

/** If others wait for room, or too much is held, a client is cut off after this time without progress, in ms. */
const HURRIED_STALL_MS = 5_000;

/**
 * How long what is large waits for room, in ms: longer than it takes to cut off those who stall, and shorter than
 * clients wait.
 */
const ROOM_TIMEOUT_MS = 15_000;

const MAX_LOOK_MS = 1_000;

/**
 * Counts and bounds what this process holds for clients that have not taken it yet. Room for large things is asked for
 * before they are read. What is small is counted where its client falls behind, and only then: it costs nothing while
 * clients keep up. Clients that stall are cut off, longest first.
 */
@Injectable()
export class UnsentBytes {
  /** Of rooms. */
  private reserved = 0;
  /** Of readers that fell behind. */
  private behind = 0;
  private readonly asked: Asked[] = [];
  private readonly waiting = new Map<WaitingReader, Waiting>();
  private readonly common = new Map<object, { bytes: number; readers: number }>();
  private readonly lookMs: number;
  private readonly hurriedMs: number;
  private timer: NodeJS.Timeout | undefined;
  private lookedAt = 0;

  private readonly maxBytes: number;
  private readonly stallTimeoutMs: number;

  constructor({ streams: { maxUnsentBytes, stallTimeoutMs } }: ResolvedOptions) {
    this.maxBytes = maxUnsentBytes;
    this.stallTimeoutMs = stallTimeoutMs;
    this.hurriedMs = Math.min(HURRIED_STALL_MS, stallTimeoutMs);
    this.lookMs = Math.max(1, Math.min(MAX_LOOK_MS, Math.floor(stallTimeoutMs / 4)));
  }

  /** How many bytes are held now. */
  get held(): number {
    return this.reserved + this.behind;
  }

  /** How many readers have something to take. */
  get readers(): number {
    return this.waiting.size;
  }

  /**
   * Room for so many bytes, in the order in which it is asked for. More than may be held at all is given alone. Rejects
   * with what a client is told where there is none in time, and with the signal's reason when it aborts.
   */
  reserve(bytes: number, gone?: AbortSignal): Promise<Room> {
    if (gone?.aborted) return Promise.reject(gone.reason as Error);
    if (this.asked.length === 0 && this.fits(bytes)) return Promise.resolve(this.room(bytes));
    return new Promise((resolve, reject) => {
      const over = (): void => {
        clearTimeout(timer);
        gone?.removeEventListener('abort', leave);
        const at = this.asked.indexOf(entry);
        if (at >= 0) this.asked.splice(at, 1);
      };
      const entry: Asked = {
        bytes,
        give: (room) => {
          over();
          resolve(room);
        },
      };
      const refuse = (error: Error): void => {
        over();
        reject(error);
        this.serve();
      };
      const leave = (): void => refuse(gone?.reason as Error);
      const timer = setTimeout(() => refuse(noRoom(this.maxBytes)), ROOM_TIMEOUT_MS);
      gone?.addEventListener('abort', leave);
      this.asked.push(entry);
      this.look();
    });
  }

  /**
   * From now on this reader has something to take: so much of its own, and what others hold as well. Beyond the bound
   * those who have been idle for longest are cut off at once, so that it holds.
   */
  enter(reader: WaitingReader, own: number, common?: Common): void {
    this.leave(reader);
    this.waiting.set(reader, { own, common, taken: reader.taken, idleMs: 0 });
    this.behind += own;
    if (common) {
      const known = this.common.get(common.key);
      if (known) known.readers += 1;
      else {
        this.common.set(common.key, { bytes: common.bytes, readers: 1 });
        this.behind += common.bytes;
      }
    }
    if (!this.timer) {
      this.lookedAt = performance.now();
      this.timer = setInterval(() => this.look(), this.lookMs);
    }
    if (!this.isOver) return;
    this.look();
    while (this.isOver && this.waiting.size > 1) this.cutOff(this.longestIdle());
  }

  /** It has taken all of it, or is gone. */
  leave(reader: WaitingReader): void {
    const waiting = this.waiting.get(reader);
    if (!waiting) return;
    this.waiting.delete(reader);
    this.behind -= waiting.own;
    if (waiting.common) {
      const known = this.common.get(waiting.common.key)!;
      known.readers -= 1;
      if (known.readers === 0) {
        this.common.delete(waiting.common.key);
        this.behind -= known.bytes;
      }
    }
    if (this.waiting.size === 0) {
      clearInterval(this.timer);
      this.timer = undefined;
    }
    this.serve();
  }

  /** Cuts off who has stalled for too long. Done by a timer while anybody has something to take. */
  look(): void {
    const now = performance.now();
    // A process that stood still saw nobody's progress: it counts two looks at most.
    const passedMs = Math.min(now - this.lookedAt, 2 * this.lookMs);
    this.lookedAt = now;
    for (const [reader, state] of this.waiting) {
      const { taken } = reader;
      if (taken === state.taken) state.idleMs += passedMs;
      else {
        state.taken = taken;
        state.idleMs = 0;
      }
      if (state.idleMs >= this.stallTimeoutMs) this.cutOff(reader);
    }
    while (this.isShort) {
      const reader = this.longestIdle();
      if (!reader || this.waiting.get(reader)!.idleMs < this.hurriedMs) return;
      this.cutOff(reader);
    }
  }

  private get isShort(): boolean {
    return this.asked.length > 0 || this.isOver;
  }

  /** Beside one thing that is larger than all may be, the others may hold as much as ever. */
  private get isOver(): boolean {
    return (this.reserved > this.maxBytes ? this.behind : this.held) > this.maxBytes;
  }

  private longestIdle(): WaitingReader | undefined {
    let longest: WaitingReader | undefined;
    let idleMs = -1;
    for (const [reader, state] of this.waiting) {
      if (state.idleMs <= idleMs) continue;
      longest = reader;
      idleMs = state.idleMs;
    }
    return longest;
  }

  private cutOff(reader: WaitingReader | undefined): void {
    if (!reader) return;
    this.leave(reader);
    reader.cutOff();
  }

  private fits(bytes: number): boolean {
    return this.reserved === 0 || this.held + bytes <= this.maxBytes;
  }

  private room(bytes: number): Room {
    let size = bytes;
    this.reserved += size;
    const resize = (to: number): void => {
      this.reserved += to - size;
      size = to;
      this.serve();
    };
    let released = false;
    return {
      get bytes() {
        return size;
      },
      resize: (to) => {
        if (!released) resize(to);
      },
      release: () => {
        if (released) return;
        released = true;
        resize(0);
      },
    };
  }

  /** Gives what there is to those who asked first. */
  private serve(): void {
    for (let next = this.asked[0]; next && this.fits(next.bytes); next = this.asked[0]) {
      next.give(this.room(next.bytes));
    }
  }
}

const noRoom = (maxBytes: number): GrpcStatusError =>
  new GrpcStatusError(
    GRPC_STATUS.RESOURCE_EXHAUSTED,
    `The answer is large, and this replica holds as much as it may (${maxBytes} bytes) for clients that have not read ` +
      'their answers yet: ask again later, or for less.',
  );
