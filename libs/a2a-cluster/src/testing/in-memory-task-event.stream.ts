import { TaskEventStream, type WakeupListener } from '../streams/task-event-stream.js';
import { endsTask, upToEnd, type VersionedTaskEvent } from '../tasks/task-event.js';
import type { InMemoryTaskStore } from './in-memory-task.store.js';

const PAGE_EVENTS = 200;

/** Streams over an {@link InMemoryTaskStore}: for tests. Each app has its own; what one writes wakes all. */
export class InMemoryTaskEventStream extends TaskEventStream {
  private readonly closing = new AbortController();
  private readonly listeners: WakeupListener[] = [];
  private readonly hear = (taskNo: number): void => {
    for (const listener of this.listeners) listener([taskNo]);
  };

  constructor(private readonly tasks: InMemoryTaskStore) {
    super();
    tasks.changes.on('change', this.hear);
  }

  override get closed(): AbortSignal {
    return this.closing.signal;
  }

  override async *batches(
    taskNo: number,
    fromVersion: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly VersionedTaskEvent[], void> {
    let cursor = fromVersion;
    while (!signal.aborted) {
      // Listening first: what is written between the read and the wait is not missed.
      const change = this.nextChange(taskNo, signal);
      try {
        const events = await this.tasks.readEvents(taskNo, cursor, PAGE_EVENTS);
        const batch = upToEnd(events);
        const last = batch.at(-1);
        if (last) {
          yield batch;
          if (endsTask(last)) return;
          cursor = last.version;
          continue;
        }
        if (this.closed.aborted) return;
        await change.happened;
      } finally {
        change.forget();
      }
    }
  }

  override committed(): void {
    // The store has told everybody.
  }

  override changed(taskNo: number): void {
    this.tasks.changes.emit('change', taskNo);
  }

  override onWakeup(listener: WakeupListener): void {
    this.listeners.push(listener);
  }

  /** The store tells everybody of every change: that is a wake-up. */
  override onCommitted(listener: (taskNo: number) => void): void {
    this.onWakeup((taskNos) => taskNos?.forEach(listener));
  }

  override close(): Promise<void> {
    this.tasks.changes.off('change', this.hear);
    this.closing.abort();
    return Promise.resolve();
  }

  private nextChange(taskNo: number, signal: AbortSignal): { happened: Promise<void>; forget: () => void } {
    let resolve!: () => void;
    const happened = new Promise<void>((settle) => (resolve = settle));
    const hear = (changed: number): void => {
      if (changed === taskNo) resolve();
    };
    this.tasks.changes.on('change', hear);
    signal.addEventListener('abort', resolve);
    this.closed.addEventListener('abort', resolve);
    const forget = (): void => {
      this.tasks.changes.off('change', hear);
      signal.removeEventListener('abort', resolve);
      this.closed.removeEventListener('abort', resolve);
    };
    return { happened, forget };
  }
}
