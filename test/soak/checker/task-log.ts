import type { EventRow } from '../dump.js';
import type { Json } from '../recording.js';
import { fold, stateOf } from './fold.js';
import { canonical, isObject, listAt, numberAt, objectAt, textAt } from './json.js';

/** One event of a task's log. */
export interface LogEvent {
  readonly version: number;
  readonly commitId: string;
  readonly event: Json;
  /** What subscribers are told of it, as text to compare by; undefined for what they are not told of. */
  readonly told: string | undefined;
  /** The state that it sets, if any. */
  readonly state: string | undefined;
  /** What its executor said of itself: the scripted agent does so in each event. */
  readonly attempt: number | undefined;
  readonly fencingToken: number | undefined;
}

/** The kinds of events that are delivered: a user's message is not, and neither is what no update can carry. */
const DELIVERED = ['task', 'statusUpdate', 'artifactUpdate'] as const;

/** A task's log, and the task as it was at each of its versions. */
export class TaskLog {
  readonly events: readonly LogEvent[];
  /** A few traits of the task at each version, by which most of the versions are told apart without comparing it. */
  private readonly traits: string[] = [];
  private readonly found = new Map<string, readonly number[]>();

  constructor(rows: readonly EventRow[]) {
    this.events = rows.map(logEvent);
    let task: Json | undefined;
    for (const { event } of this.events) {
      task = fold(task, event);
      this.traits.push(traitsOf(task));
    }
  }

  /** The task at a version: the fold of all events up to it. */
  at(version: number): Json | undefined {
    return this.events
      .filter((event) => event.version <= version)
      .reduce<Json | undefined>((task, { event }) => fold(task, event), undefined);
  }

  /** The versions at which the task was exactly this. */
  versionsOf(task: Json): readonly number[] {
    const text = canonical(task);
    const known = this.found.get(text);
    if (known) return known;
    const traits = traitsOf(task);
    const candidates = this.events.filter((_, at) => this.traits[at] === traits).map(({ version }) => version);
    const versions = candidates.filter((version) => canonical(this.at(version)) === text);
    this.found.set(text, versions);
    return versions;
  }

  /** What is delivered after a version, in order. */
  toldAfter(version: number): readonly (LogEvent & { readonly told: string })[] {
    return this.events.filter(
      (event): event is LogEvent & { readonly told: string } => event.version > version && event.told !== undefined,
    );
  }

  /** Ids of all messages of users that it holds. */
  messageIds(): string[] {
    return this.events.flatMap(({ event }) => {
      const begun = objectAt(event, 'task');
      const messages = begun ? listAt(begun, 'history') : [objectAt(event, 'userMessage')];
      return messages.flatMap((message) => (isObject(message) ? [textAt(message, 'messageId') ?? ''] : []));
    });
  }
}

/** What was delivered, as text to compare by. */
export function toldText(event: Json): string | undefined {
  for (const kind of DELIVERED) {
    const value = objectAt(event, kind);
    if (value) return canonical({ [kind]: value });
  }
  return undefined;
}

function logEvent({ version, commitId, event: text }: EventRow): LogEvent {
  const event = JSON.parse(text) as Json;
  const body = objectAt(event, 'task') ?? objectAt(event, 'statusUpdate') ?? objectAt(event, 'artifactUpdate');
  const metadata = objectAt(body, 'metadata');
  const setsState = objectAt(event, 'task') ?? objectAt(event, 'statusUpdate');
  return {
    version,
    commitId,
    event,
    told: toldText(event),
    state: stateOf(setsState),
    attempt: numberAt(metadata, 'attempt'),
    fencingToken: numberAt(metadata, 'fencingToken'),
  };
}

function traitsOf(task: Json): string {
  const parts = listAt(task, 'artifacts').map((artifact) =>
    isObject(artifact) ? listAt(artifact, 'parts').length : 0,
  );
  const n = numberAt(objectAt(task, 'metadata'), 'n') ?? 0;
  return [stateOf(task), listAt(task, 'history').length, ...parts, n].join(' ');
}
