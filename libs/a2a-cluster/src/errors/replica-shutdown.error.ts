import { TurnAbortedError } from './turn-aborted.error.js';

/** The replica shuts down and `turns.drainTimeoutMs` has passed. */
export class ReplicaShutdownError extends TurnAbortedError {
  override readonly name = 'ReplicaShutdownError';
  readonly code = 'A2A_REPLICA_SHUTDOWN';

  constructor(taskId: string) {
    super(taskId, `The replica that runs task ${taskId} is shutting down.`);
  }
}
