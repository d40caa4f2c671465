/** A write named a task version that is no longer the current one. Nothing was written: reload, decide again. */
export class ConcurrentTaskModificationError extends Error {
  override readonly name = 'ConcurrentTaskModificationError';
  readonly code = 'A2A_CONCURRENT_TASK_MODIFICATION';

  constructor(
    readonly taskId: string,
    /** The version the writer believed to be current; 0 where it believed that the task did not exist. */
    readonly expectedVersion: number,
    options?: ErrorOptions,
  ) {
    super(`Task ${taskId} is no longer at version ${expectedVersion}: somebody else has written it.`, options);
  }
}
