import type { TurnExecution } from './turn-execution.js';
import type { Admitted } from './turn-subject.js';

/** The way in which a turn comes to run. */
export interface TurnEntry {
  /** Whether the executor's guards are asked before the turn is admitted. */
  readonly asksGuards: boolean;

  /**
   * Admits the turn. False where the turn has its outcome already, so that nothing is to be run. Throws the protocol's
   * error where the turn is refused; then nothing was changed.
   */
  admit(turn: TurnExecution): Promise<boolean>;
}

/** The entry of a turn whose lease was taken before the turn starts: it is run again, or it cancels its task. */
export class AdmittedBefore implements TurnEntry {
  /** The guards have let the message of this turn, or the request to cancel, pass before. */
  readonly asksGuards = false;

  constructor(private readonly admitted: Admitted) {}

  admit(turn: TurnExecution): Promise<boolean> {
    turn.admittedTo(this.admitted);
    return Promise.resolve(true);
  }
}
