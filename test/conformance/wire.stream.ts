import { within } from '../../tools/harness/wait.js';
import type { WireEvent } from './wire.types.js';

/** How long an event may be in coming: a limit is there to end what hangs. */
const PATIENCE_MS = 20_000;

/** A stream that is open, event by event. */
export class WireStream {
  constructor(
    private readonly events: AsyncGenerator<WireEvent, void>,
    /** Leaves, as a client does that has gone. */
    readonly hangUp: () => void,
  ) {}

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
}

/** Which of the four an event is, and in what state: `task WORKING`, `artifactUpdate`. */
export function kindOf(event: WireEvent): string {
  const [kind = 'nothing'] = Object.keys(event);
  const state = (event.task ?? event.statusUpdate)?.status.state.replace('TASK_STATE_', '');
  return state === undefined ? kind : `${kind} ${state}`;
}
