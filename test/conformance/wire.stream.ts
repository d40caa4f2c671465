import type { Transport } from '../e2e/raw-requests.js';
import { within } from '../helpers/wait.js';
import type { WireEvent } from './wire.types.js';

/** How long an event may be in coming: a limit is there to end what hangs. */
const PATIENCE_MS = 20_000;

/** Server-sent events, one by one. */
export class WireStream {
  private readonly events: AsyncGenerator<WireEvent, void>;

  constructor(
    readonly response: Response,
    private readonly connection: AbortController,
    private readonly transport: Transport,
  ) {
    this.events = this.parse(response.body!.pipeThrough(new TextDecoderStream()));
  }

  /** The next event. @throws {Error} where the stream has ended */
  async next(): Promise<WireEvent> {
    const { value } = await within(this.events.next(), PATIENCE_MS, 'an event comes');
    if (!value) throw new Error('The stream has ended');
    return value;
  }

  /** What is left of it, once the server has closed it. */
  async rest(): Promise<WireEvent[]> {
    const all: WireEvent[] = [];
    for (;;) {
      const { value } = await within(this.events.next(), PATIENCE_MS, () => `the end after ${JSON.stringify(all)}`);
      if (!value) return all;
      all.push(value);
    }
  }

  hangUp(): void {
    this.connection.abort();
  }

  private async *parse(chunks: AsyncIterable<string>): AsyncGenerator<WireEvent, void> {
    let buffer = '';
    for await (const chunk of chunks) {
      const blocks = (buffer + chunk).split(/\r?\n\r?\n/);
      buffer = blocks.pop()!;
      for (const block of blocks) {
        const data = block.split(/\r?\n/).flatMap((line) => /^data: ?(.*)$/.exec(line)?.[1] ?? []);
        if (data.length > 0) yield this.eventOf(JSON.parse(data.join('\n')));
      }
    }
  }

  /** JSON-RPC puts each event into an answer to the request. */
  private eventOf(item: unknown): WireEvent {
    if (this.transport !== 'JSONRPC') return item as WireEvent;
    const { jsonrpc, result } = item as { jsonrpc: string; result: WireEvent };
    expect(jsonrpc).toBe('2.0');
    return result;
  }
}

/** Which of the four an event is, and in what state: `task WORKING`, `artifactUpdate`. */
export function kindOf(event: WireEvent): string {
  const [kind = 'nothing'] = Object.keys(event);
  const state = (event.task ?? event.statusUpdate)?.status.state.replace('TASK_STATE_', '');
  return state === undefined ? kind : `${kind} ${state}`;
}
