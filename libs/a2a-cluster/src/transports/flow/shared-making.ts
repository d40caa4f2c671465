import { SharedAnswer, type Share } from './shared-answer.js';
import type { Room, UnsentBytes } from './unsent-bytes.js';

/** A shared answer, and what is known of it beside its bytes. */
export interface Made<T> {
  bytes: Buffer;
  about: T;
}

const NOBODY = new Error('Nobody waits for this answer any more.');

/**
 * A shared answer from the first who asks for it until the last who has it: there is room for it before it is made, it is
 * made once, and given up as soon as nobody waits for it or writes it.
 */
export class SharedMaking<T> {
  private readonly stop = new AbortController();
  private readonly made: Promise<{ answer: SharedAnswer; about: T }>;
  private room: Room | undefined;
  /** The clients that wait for it to be made, and those that write it. */
  private users = 0;

  constructor(
    unsent: UnsentBytes,
    size: number,
    kind: SharedAnswer['kind'],
    make: () => Promise<Made<T>>,
    private readonly onUnused: () => void,
  ) {
    this.made = this.make(unsent, size, kind, make);
    this.made.catch(() => undefined);
  }

  /** Waits until it is made, or its client is gone. */
  async share(gone: AbortSignal): Promise<{ share: Share; about: T }> {
    this.users += 1;
    let released = false;
    const release = (): void => {
      if (released) return;
      released = true;
      this.users -= 1;
      if (this.users === 0) this.end();
    };
    try {
      const { answer, about } = await orGone(this.made, gone);
      return { share: { answer, release }, about };
    } catch (error) {
      release();
      throw error;
    }
  }

  private async make(
    unsent: UnsentBytes,
    size: number,
    kind: SharedAnswer['kind'],
    make: () => Promise<Made<T>>,
  ): Promise<{ answer: SharedAnswer; about: T }> {
    this.room = await unsent.reserve(size, this.stop.signal);
    // Given back while it was given: nobody waits any more.
    if (this.stop.signal.aborted) this.end();
    this.stop.signal.throwIfAborted();
    const { bytes, about } = await make();
    this.room.resize(bytes.length);
    return { answer: new SharedAnswer(bytes, kind), about };
  }

  private end(): void {
    this.onUnused();
    this.stop.abort(NOBODY);
    this.room?.release();
  }
}

function orGone<T>(promise: Promise<T>, gone: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(NOBODY);
    const over = (): void => gone.removeEventListener('abort', leave);
    if (gone.aborted) leave();
    gone.addEventListener('abort', leave, { once: true });
    promise.then(
      (value) => {
        over();
        resolve(value);
      },
      (error: Error) => {
        over();
        reject(error);
      },
    );
  });
}
