import { AsyncLocalStorage } from 'node:async_hooks';
import { type EventBatch, eventsOf } from '../../tasks/task-event.js';
import type { Share, SharedForm } from './shared-answer.js';
import type { Common } from './unsent-bytes.js';

/** The receiving end of a call's answer: an HTTP response, or a gRPC call. */
export interface StreamReader {
  /** Nobody reads any more. */
  readonly destroyed: boolean;
  /** Nothing should be written until the event `drain`. */
  readonly writableNeedDrain: boolean;
  once(event: 'close' | 'drain', listener: () => void): unknown;
  off(event: 'close' | 'drain', listener: () => void): unknown;
  /** How it is written what several readers share; undefined where each gets bytes of its own. */
  readonly form: SharedForm | undefined;
  /** The stand-in of this answer is written next. */
  prepare(share: Share): void;
  /** Reserves this room for the next write. It is given back when the reader has taken that, or is gone. */
  hold(held: { release(): void }): void;
  readonly isHolding: boolean;
  /** The reader has taken everything that was written. */
  letGo(): void;
  /** It is not read as fast as it is written: what is unsent counts from here on, and so does what waits behind it. */
  waits(common?: Common): void;
  waitsNoMore(): void;
  /** The answer is an error after which the client should ask another replica. */
  askAnother(): void;
}

/** The reader of the call that is being answered; none where a call comes from inside the app. */
const readers = new AsyncLocalStorage<StreamReader>();

/** The reader of the call that is being answered. */
export const currentReader = (): StreamReader | undefined => readers.getStore();

/** Runs the SDK's handler with its reader in reach of the streams that the request handler returns. */
export const withReader = <T>(reader: StreamReader, run: () => T): T => readers.run(reader, run);

/** Runs what outlives the answer: a turn, and the calls that its executor makes, are no part of it. */
export const outsideAnswer = <T>(run: () => T): T => readers.exit(run);

/** Aborts when the reader of the call that is being answered is gone; never for a call from inside the app. */
export function readerGone(): AbortSignal {
  const reader = readers.getStore();
  const gone = new AbortController();
  const leave = (): void => gone.abort(READER_GONE);
  if (reader?.destroyed) leave();
  else reader?.once('close', leave);
  return gone.signal;
}

/** Why a stream ended. Given, since an abort without a reason makes an error, with its stack. */
const READER_GONE = 'the reader is gone';

/**
 * A stream at the pace of its reader, out of batches. The SDK writes without waiting, so a reader that does not read
 * would fill memory: the next item is only taken once what was written has drained, and none once the reader is gone.
 * `make` gets a signal that aborts when the reader is gone. `closed` ends the wait for a reader that does not read.
 */
export async function* paced<T>(
  make: (gone: AbortSignal) => AsyncGenerator<readonly T[], void>,
  closed: AbortSignal,
): AsyncGenerator<T, void> {
  const reader = readers.getStore();
  const gone = new AbortController();
  const leave = (): void => gone.abort(READER_GONE);
  if (reader?.destroyed) leave();
  reader?.once('close', leave);
  try {
    for await (const batch of make(gone.signal)) {
      for (const item of batch) {
        yield item;
        if (gone.signal.aborted) return;
        if (!reader) continue;
        if (reader.writableNeedDrain) await drained(reader, batch, gone.signal, closed);
        if (reader.isHolding && !reader.writableNeedDrain) reader.letGo();
      }
    }
  } finally {
    reader?.off('close', leave);
    leave();
  }
}

function drained(reader: StreamReader, batch: EventBatch<unknown>, ...stops: AbortSignal[]): Promise<void> {
  reader.waits(commonOf(batch));
  return new Promise((resolve) => {
    const done = (): void => {
      reader.off('drain', done);
      if (!reader.writableNeedDrain) reader.waitsNoMore();
      for (const stop of stops) stop.removeEventListener('abort', done);
      resolve();
    };
    reader.once('drain', done);
    for (const stop of stops) {
      if (stop.aborted) done();
      stop.addEventListener('abort', done, { once: true });
    }
  });
}

/** The events that wait behind what is being written: readers that were given the same hold them together. */
function commonOf(batch: EventBatch<unknown>): Common | undefined {
  const events = eventsOf(batch);
  const last = events?.at(-1);
  return last && { key: last.event, bytes: events!.reduce((sum, { bytes }) => sum + bytes, 0) };
}
