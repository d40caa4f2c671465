import { AsyncLocalStorage } from 'node:async_hooks';
import type { Response } from 'express';

/** The HTTP response that a call's stream will be written to; none where a call does not come by HTTP. */
const responses = new AsyncLocalStorage<Response>();

/** Runs the SDK's handler with its response in reach of the streams that the request handler returns. */
export const withResponse = <T>(response: Response, run: () => T): T => responses.run(response, run);

/** Runs what outlives the response: a turn, and the calls that its executor makes, are no part of it. */
export const outsideResponse = <T>(run: () => T): T => responses.exit(run);

/**
 * A stream at the pace of its reader. The SDK writes to the response without waiting, so a reader that does not read
 * would fill memory: the next item is only taken once the response has drained, and none once it is closed.
 * `make` gets a signal that aborts when the reader is gone. `closed` ends the wait for a reader that does not read.
 */
export async function* paced<T>(
  make: (gone: AbortSignal) => AsyncGenerator<T, void>,
  closed: AbortSignal,
): AsyncGenerator<T, void> {
  const response = responses.getStore();
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  if (response?.destroyed) leave();
  response?.once('close', leave);
  try {
    for await (const item of make(gone.signal)) {
      yield item;
      if (gone.signal.aborted) return;
      if (response?.writableNeedDrain) await drained(response, gone.signal, closed);
    }
  } finally {
    response?.off('close', leave);
    gone.abort();
  }
}

function drained(response: Response, ...stops: AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      for (const stop of stops) stop.removeEventListener('abort', done);
      resolve();
    };
    response.once('drain', done);
    for (const stop of stops) {
      if (stop.aborted) done();
      stop.addEventListener('abort', done, { once: true });
    }
  });
}
