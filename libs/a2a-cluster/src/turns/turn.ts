/**
 * One run of the executor on a task: what an executor may ask and rely on. `requestContext.turn` in `execute`, or
 * {@link currentTurn} anywhere below it.
 */
export abstract class Turn {
  abstract readonly taskId: string;
  abstract readonly contextId: string;

  /** 1 for the first run of the request, one more each time it is run again after a replica was lost. */
  abstract readonly attempt: number;

  /**
   * Aborts when the turn must stop, with a {@link TurnAbortedError} as its reason: the lease is lost, the task was
   * canceled, the replica shuts down, or the turn took too long. Hand it to what the turn waits for.
   */
  abstract readonly signal: AbortSignal;

  /**
   * The generation of the turn's lease: it only ever grows for a task, so a resource that refuses smaller numbers than
   * it has seen is safe from a replica that was given up for dead. Undefined until the lease exists, which for a new
   * task is when its first event is stored (`await turn.flush()` after it), and where leases are off.
   */
  abstract readonly fencingToken: number | undefined;

  /**
   * Throws the {@link TurnAbortedError} if the turn was stopped, or {@link LeaseLostError} if its lease may have run
   * out. It cannot close the gap to what comes next: that takes the fencing token, or the same database.
   */
  abstract assertHeld(): void;

  /** Waits until everything published so far is stored. Throws {@link LeaseLostError} if it was refused. */
  abstract flush(): Promise<void>;
}
