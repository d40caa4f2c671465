import type { Response } from 'express';

/** How long streams may take to say goodbye at shutdown, in ms: a reader that does not read never lets them. */
const GOODBYE_MS = 500;

/** The responses that are being written: a server does not close while one of them is open. */
export class OpenResponses {
  private readonly open = new Set<Response>();
  private whenNone: (() => void) | undefined;

  add(response: Response): void {
    this.open.add(response);
    response.once('close', () => {
      this.open.delete(response);
      if (this.open.size === 0) this.whenNone?.();
    });
  }

  /** Waits until streams have ended, and cuts off those whose readers do not read. Other answers take their time. */
  async end(): Promise<void> {
    if (this.open.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.whenNone = resolve;
      timer = setTimeout(resolve, GOODBYE_MS);
    });
    clearTimeout(timer);
    for (const response of this.open) {
      if (String(response.getHeader('content-type')).startsWith('text/event-stream')) response.destroy();
    }
  }
}
