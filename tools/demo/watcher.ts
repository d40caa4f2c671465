import { type StreamResponse, TaskState, taskStateToJSON } from '@a2a-js/sdk';
import { textOf } from '../harness/text.js';
import { describeError } from '../../apps/sample/src/describe-error.js';
import { DemoFailure, expect, within } from './expect.js';

/** One thing a client was told. */
export interface Seen {
  readonly kind: 'task' | 'message' | 'statusUpdate' | 'artifactUpdate';
  readonly taskId: string;
  /** The agent's own number of the event; absent for what the cluster wrote. */
  readonly n: number | undefined;
  readonly state: TaskState | undefined;
  /** The text of the status message. */
  readonly text: string;
  /** The chunks it brought; a Task brings all there are so far. */
  readonly chunks: readonly string[];
  /** Whether its chunks follow those seen before, instead of taking their place. */
  readonly appends: boolean;
  /** By `performance.now()`. */
  readonly at: number;
}

const TERMINAL: readonly (TaskState | undefined)[] = [
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
  TaskState.TASK_STATE_REJECTED,
];

/** A client that reads a stream to its end and remembers what it was told. */
export class Watcher {
  readonly seen: Seen[] = [];
  /** Settles when the stream is over; with the error's text if it broke. */
  readonly over: Promise<string | undefined>;
  private readonly listeners = new Set<() => void>();

  constructor(
    readonly who: string,
    stream: AsyncIterable<StreamResponse>,
  ) {
    this.over = this.read(stream);
  }

  /** The first thing seen that is as wished, past ones included. */
  async first(what: string, wish: (seen: Seen) => boolean): Promise<Seen> {
    const found = () => this.seen.find(wish);
    let listener: (() => void) | undefined;
    const heard = new Promise<Seen>((resolve, reject) => {
      listener = () => {
        const seen = found();
        if (seen !== undefined) resolve(seen);
      };
      this.listeners.add(listener);
      listener();
      void this.over.then((broken) => {
        reject(new DemoFailure(`${this.who}: the stream ended without ${what} (${broken ?? this.summary()})`));
      });
    });
    try {
      return await within(`${this.who} sees ${what}`, heard);
    } finally {
      if (listener !== undefined) this.listeners.delete(listener);
    }
  }

  /** The end of the stream, and the state it ended with. That nothing was missing or doubled is checked as well. */
  async end(state: TaskState): Promise<Seen> {
    const broken = await within(`${this.who}: the end of the stream`, this.over);
    expect(broken === undefined, `${this.who}: the stream broke: ${broken}`);
    const last = this.seen.at(-1);
    expect(
      last?.state === state,
      `${this.who}: the stream ended with ${stateName(last?.state)}, not ${stateName(state)}`,
    );
    this.checkOrder();
    return last;
  }

  /** The chunks of its one artifact, as a client holds them after all that was seen. */
  chunks(): string[] {
    let held: string[] = [];
    for (const { chunks, appends } of this.seen) {
      if (appends) held.push(...chunks);
      else if (chunks.length > 0) held = [...chunks];
    }
    return held;
  }

  /** What was seen, in a few words. */
  summary(): string {
    const first = this.seen[0];
    const rest = this.seen.length - 1;
    if (first === undefined) return 'nothing seen';
    const start = first.n === undefined ? first.kind : `${first.kind} at ${first.n}`;
    return `${start}, then ${rest} event${rest === 1 ? '' : 's'}, last ${stateName(this.seen.at(-1)?.state)}`;
  }

  /** One snapshot first, then each number once and in order, and nothing after a terminal state. */
  private checkOrder(): void {
    const [snapshot, ...events] = this.seen;
    expect(snapshot?.kind === 'task', `${this.who}: the stream began with ${snapshot?.kind}, not with the task`);
    let last = snapshot.n ?? 0;
    for (const { kind, n } of events) {
      expect(kind !== 'task', `${this.who}: a second Task in the stream`);
      if (n === undefined) continue;
      expect(n === last + 1, `${this.who}: event ${n} came after event ${last}`);
      last = n;
    }
    const ends = this.seen.filter(({ state }) => TERMINAL.includes(state)).length;
    expect(ends <= 1, `${this.who}: ${ends} terminal states in one stream`);
  }

  private async read(stream: AsyncIterable<StreamResponse>): Promise<string | undefined> {
    try {
      for await (const response of stream) {
        this.seen.push(seenIn(response));
        for (const listener of this.listeners) listener();
      }
      return undefined;
    } catch (error) {
      return describeError(error);
    }
  }
}

/** `FAILED` rather than `TASK_STATE_FAILED`. */
export function stateName(state: TaskState | undefined): string {
  return state === undefined ? 'no state' : taskStateToJSON(state).replace('TASK_STATE_', '');
}

function seenIn({ payload }: StreamResponse): Seen {
  const at = performance.now();
  if (payload === undefined) throw new DemoFailure('an empty stream response');
  const { $case: kind, value } = payload;
  const numberOf: unknown = value.metadata?.n;
  const status = 'status' in value ? value.status : undefined;
  const artifacts = kind === 'task' ? value.artifacts : kind === 'artifactUpdate' ? [value.artifact] : [];
  const parts = artifacts.flatMap((artifact) => artifact?.parts ?? []);
  return {
    kind,
    taskId: 'id' in value ? value.id : value.taskId,
    n: typeof numberOf === 'number' ? numberOf : undefined,
    state: status?.state,
    text: textOf(status?.message),
    chunks: parts.flatMap(({ content }) => (content?.$case === 'text' ? [content.value] : [])),
    appends: kind === 'artifactUpdate' && value.append,
    at,
  };
}
