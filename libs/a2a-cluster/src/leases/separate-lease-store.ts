import type { TaskScope } from '../tasks/task-scope.js';
import { LeaseStore, type LeaseRequest } from './lease-store.js';

/** A lease as a look at its task finds it. */
export interface HeldLeaseInfo {
  generation: number;
  turnId: string;
  admittedVersion: number;
  expired: boolean;
}

/**
 * Keeps the leases in another place than the tasks, so that no transaction holds both. Order takes its place: a lease is
 * acquired before a task is saved, and released after it; and a write checks its lease before, not while, it saves.
 */
export abstract class SeparateLeaseStore extends LeaseStore {
  /**
   * Takes the lease of a task, or gives the generation of the one that this very request has taken before. Undefined
   * where somebody else has it, expired or not.
   */
  abstract acquire(scope: TaskScope, request: LeaseRequest, admittedVersion: number): Promise<number | undefined>;

  /** The lease of a task. */
  abstract find(scope: TaskScope): Promise<HeldLeaseInfo | undefined>;

  /** Marks the lease of a task: its turn is to be canceled. */
  abstract requestCancel(scope: TaskScope): Promise<void>;
}
