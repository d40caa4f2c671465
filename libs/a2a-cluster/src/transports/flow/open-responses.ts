import { Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { within } from '../../async/late-timer.js';
import { ResolvedOptions } from '../../options/cluster.options.js';

/** How long streams may take to say goodbye at shutdown, in ms: a reader that does not read never lets them. */
export const GOODBYE_MS = 500;

/** A comment, which clients of an event stream skip by the rules of its format. */
const COMMENT = ': keep-alive\n\n';

/** The responses that are being written: a server does not close while one of them is open. */
@Injectable()
export class OpenResponses {
  /** And how much had been written of each when it was last looked at. */
  private readonly open = new Map<Response, number>();
  private whenNone: (() => void) | undefined;
  private timer: NodeJS.Timeout | undefined;

  /** For how long an event stream may be silent at most; `Infinity`: for ever. */
  private readonly keepAliveMs: number;

  constructor({ streams }: ResolvedOptions) {
    this.keepAliveMs = streams.keepAliveMs;
  }

  add(response: Response): void {
    this.open.set(response, 0);
    // One timer for all of them; looked at twice in that time, none is silent for longer.
    if (this.keepAliveMs !== Infinity) this.timer ??= setInterval(() => this.keepAlive(), this.keepAliveMs / 2);
    response.once('close', () => {
      this.open.delete(response);
      if (this.open.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
      this.whenNone?.();
    });
  }

  /** Waits until streams have ended, and cuts off those whose readers do not read. Other answers take their time. */
  async end(): Promise<void> {
    if (this.open.size === 0) return;
    await within(GOODBYE_MS, new Promise<void>((resolve) => (this.whenNone = resolve)));
    for (const response of this.open.keys()) if (isEventStream(response)) response.destroy();
  }

  /** Says something on the streams that have said nothing since the last time. */
  private keepAlive(): void {
    for (const [response, before] of this.open) {
      if (!response.headersSent || response.writableEnded || !isEventStream(response)) continue;
      const written = response.socket?.bytesWritten ?? 0;
      // A client that does not read gets no comment. The SDK writes an event at once: none is cut in two.
      if (written === before && !response.writableNeedDrain) response.write(COMMENT);
      this.open.set(response, response.socket?.bytesWritten ?? 0);
    }
  }
}

const isEventStream = (response: Response): boolean =>
  String(response.getHeader('content-type')).startsWith('text/event-stream');
