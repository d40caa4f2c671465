import { Deferred } from '../async/deferred.js';
import type { StoredTask } from '../tasks/task-store.js';
import type { AuthenticationWanted, TurnOpening, TurnOutcome } from './turn-outcome.js';

/** The three promises of a turn. Each is settled once: the first call counts. */
export class TurnResult {
  private readonly opening = new Deferred<TurnOpening>();
  private readonly authWanted = new Deferred<AuthenticationWanted>();
  private readonly end = new Deferred<TurnOutcome>();

  readonly opened = this.opening.promise;
  readonly authRequired = this.authWanted.promise;
  readonly outcome = this.end.promise;

  /** A new task is stored. */
  openedNewTask(taskNo: number): void {
    this.opening.resolve({ kind: 'task', taskNo, version: 0, task: undefined });
  }

  /** A follow-up was admitted to this task. */
  openedTask({ taskNo, version, task }: Pick<StoredTask, 'taskNo' | 'version' | 'task'>): void {
    this.opening.resolve({ kind: 'task', taskNo, version, task });
  }

  /** The message will never be stored. */
  notOpened(error: unknown): void {
    this.opening.resolve({ kind: 'refused', error });
  }

  authenticationWanted(taskNo: number): void {
    this.authWanted.resolve({ kind: 'authRequired', taskNo });
  }

  /** The one place where an outcome is settled. Who still waits for the opening learns of it too. */
  settle(outcome: TurnOutcome): void {
    if (outcome.kind === 'ended') this.openedTask(outcome);
    // A turn that is lost was opened before: its task is stored.
    else if (outcome.kind !== 'lost') this.opening.resolve(outcome);
    this.end.resolve(outcome);
  }
}
