/** The event log of a task is not dense where it has to be. Never guessed around: the task is not served. */
export class EventLogGapError extends Error {
  override readonly name = 'EventLogGapError';
  readonly code = 'A2A_EVENT_LOG_GAP';

  constructor(
    readonly taskNo: number,
    readonly fromVersion: number,
    readonly toVersion: number,
    readonly found: number,
  ) {
    super(
      `Task number ${taskNo} needs events ${fromVersion} to ${toVersion} of its log, ` +
        `which holds ${found} of them: rows were deleted that no snapshot contains.`,
    );
  }
}
