/** Why a turn was stopped: what `turn.signal.reason.code` says. */
export type TurnAbortCode = 'LEASE_LOST' | 'TASK_CANCELED' | 'SHUTDOWN' | 'TURN_TIMEOUT';

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
