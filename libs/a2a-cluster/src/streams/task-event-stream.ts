import type { VersionedTaskEvent } from '../tasks/task-event.js';

/** Hears that something about these tasks may have changed elsewhere; `undefined`: anything may have. */
export type WakeupListener = (taskNos: readonly number[] | undefined) => void;

/**
 * The event logs of tasks as streams, wherever their turns run. Provide your own under this class as the token
 * (`extraProviders`) to replace it.
 */
export abstract class TaskEventStream {
  /**
   * Every event after `fromVersion` once and in order, in batches as they come, at least one in each; ending after the
   * event that ends the task, or when the signal aborts. Throws the SDK's TaskNotFoundError when the task is deleted.
   * Pull-based: a follower is a cursor, so a slow reader costs no more memory than a batch, a MiB or the one event that is
   * larger. One whose cursor is older than the retained log, or stands on events that the database has lost, gets updates
   * that bring it level instead of what is gone.
   */
  abstract batches(
    taskNo: number,
    fromVersion: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly VersionedTaskEvent[], void>;

  /** The same, one by one. */
  async *follow(taskNo: number, fromVersion: number, signal: AbortSignal): AsyncGenerator<VersionedTaskEvent, void> {
    for await (const batch of this.batches(taskNo, fromVersion, signal)) {
      for (const event of batch) {
        yield event;
        if (signal.aborted) return;
      }
    }
  }

  /** Events that this replica has just committed: told here at once, and everywhere as a wake-up. */
  abstract committed(taskNo: number, events: readonly VersionedTaskEvent[]): void;

  /** Something about the task changed that is no event of this replica's: look, here and everywhere. */
  abstract changed(taskNo: number): void;

  /** Registers for wake-ups from elsewhere. They are hints: losing one costs at most the poll interval. */
  abstract onWakeup(listener: WakeupListener): void;

  /** Registers for what this replica itself commits. */
  abstract onCommitted(listener: (taskNo: number) => void): void;

  /** Aborts when the streams are closed: followers are given what this replica has committed, and nothing more. */
  abstract readonly closed: AbortSignal;

  /** Ends all streams and closes what feeds them. */
  abstract close(): Promise<void>;
}
