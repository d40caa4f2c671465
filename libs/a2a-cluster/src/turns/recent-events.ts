import { levelingEvents } from '../tasks/expand-task-event.js';
import type { TaskEvent } from '../tasks/task-event.js';
import { decodeEvent, encodeEvent } from '../tasks/task-event.codec.js';
import type { StoredTask } from '../tasks/task-store.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** How many characters of events are kept for each turn: about what a fast stream says in a second. */
const KEPT_CHARS = 32 * 1024;

/** An event and its JSON. */
export interface TextedEvent {
  event: TaskEvent;
  text: string;
}

/**
 * The events that a turn has stored last. A database that fails over to a standby which had not received them all, or is
 * restored, loses commits that were answered and told; the turn that made them stores them again.
 */
export class RecentEvents {
  private readonly logger = new LibraryLogger('A2AClusterTurn');
  /** Their texts, each one's version one more than that of the one before. */
  private texts: string[] = [];
  private chars = 0;
  /** The version of the last of them. */
  private last = 0;

  /** These were stored after this version. */
  stored(before: number, events: readonly TextedEvent[]): void {
    if (before !== this.last) this.goBackTo(before);
    for (const { text } of events) {
      this.texts.push(text);
      this.chars += text.length;
    }
    this.last = before + events.length;
    let surplus = 0;
    for (; this.chars > KEPT_CHARS; surplus += 1) this.chars -= this.texts[surplus]!.length;
    if (surplus > 0) this.texts.splice(0, surplus);
  }

  /**
   * The events that make up for those that the database has lost. The log was at this version, and is now at that of the
   * stored task. There are as many as were lost, so no version is told twice with other content. Lost events that are no
   * longer here are replaced by empty ones, and the artifacts as they are stored come behind them.
   */
  lost(stored: StoredTask, version: number): TextedEvent[] {
    const { length } = this.texts;
    const missing = version - stored.version;
    this.logger.warn(
      `The database has lost ${missing} events of task ${stored.task.id}, after version ${stored.version}.`,
    );
    if (this.last === version && missing <= length) {
      return this.texts.slice(length - missing).map((text) => ({ event: decodeEvent(text), text }));
    }
    const nothing: TaskEvent = { kind: 'taskMerge', taskMerge: {} };
    const artifacts = levelingEvents(stored, stored.version)
      .map(({ event }) => event)
      .slice(0, -1);
    return [...new Array<TaskEvent>(missing).fill(nothing), ...artifacts].map((event) => ({
      event,
      text: encodeEvent(event),
    }));
  }

  /** Forgets the events after a version: others are stored there now, and events behind a gap are of no use. */
  private goBackTo(version: number): void {
    const kept = version > this.last ? 0 : Math.max(0, this.texts.length - (this.last - version));
    this.texts.length = kept;
    this.chars = this.texts.reduce((sum, { length }) => sum + length, 0);
  }
}
