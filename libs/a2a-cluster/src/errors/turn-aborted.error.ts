/** Why a turn was stopped: what `turn.signal.reason.code` says. */
export type TurnAbortCode = 'A2A_LEASE_LOST' | 'A2A_TASK_CANCELED' | 'A2A_REPLICA_SHUTDOWN' | 'A2A_TURN_TIMEOUT';

/** The reason with which `turn.signal` aborts. One subclass per {@link TurnAbortCode}. */
export abstract class TurnAbortedError extends Error {
  abstract readonly code: TurnAbortCode;

  constructor(
    readonly taskId: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
