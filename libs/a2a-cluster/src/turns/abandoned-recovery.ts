import type { TaskScope } from '../tasks/task-scope.js';

/**
 * Recovers what a dead replica has left of a task, so that a follow-up or a cancel can go on. Recovery builds on turns;
 * this is the part of it that turns build on.
 */
export abstract class AbandonedRecovery {
  /** False where this replica recovers nothing: leases or the sweeper are off. */
  abstract readonly isOn: boolean;

  /** Recovers one task whose lease has expired. False where nothing was claimed. */
  abstract recoverTask(scope: TaskScope): Promise<boolean>;
}
