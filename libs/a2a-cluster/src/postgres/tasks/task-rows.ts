import type { TaskState } from '@a2a-js/sdk';
import { EventLogGapError } from '../../errors/event-log-gap.error.js';
import type { LeaseRequest } from '../../leases/lease-store.js';
import { applyEvent } from '../../tasks/apply-event.js';
import type { TaskEvent } from '../../tasks/task-event.js';
import { decodeEvents, decodeTask } from '../../tasks/task-event.codec.js';
import { isInterrupted, stateNamed } from '../../tasks/task-states.js';
import type { FoundTask, LargeTask, StoredTask, TaskScope } from '../../tasks/task-store.js';

/** A task as the statements read it: snapshot and tail. bigint columns arrive as strings. */
export interface TaskRow {
  taskNo: string;
  version: number;
  stateVersion: number;
  state: string;
  contextId: string;
  snapshot: string;
  snapshotVersion: number;
  /** JSON array of the events; as text, since apps may parse json columns their own way. */
  tail: string | null;
}

/** A task with its scope, and the lease's mark where there is one. */
export interface FoundRow extends TaskRow, TaskScope {
  admittedVersion: number | null;
}

/** The same with what it holds left out where that is too much: then there is only how much. */
export type FoundUpToRow = Omit<FoundRow, 'snapshot'> & { snapshot: string | null; bytes: string | null };

/** Under the task lock, with the lease beside it. */
export interface DecisionRow extends TaskRow {
  leaseGeneration: string | null;
  leaseTurnId: string | null;
  leaseHolder: string | null;
  leaseClaims: number | null;
  admittedVersion: number | null;
  expired: boolean | null;
}

/** The events behind the snapshot. A tail that is not dense up to the version is an error, not a guess. */
export function tailOf(row: TaskRow): TaskEvent[] {
  const tail = row.tail === null ? [] : decodeEvents(row.tail);
  if (tail.length !== row.version - row.snapshotVersion) {
    throw new EventLogGapError(Number(row.taskNo), row.snapshotVersion + 1, row.version, tail.length);
  }
  return tail;
}

/** Snapshot plus tail. */
export function storedTask(row: TaskRow): StoredTask {
  const task = tailOf(row).reduce(applyEvent, decodeTask(row.snapshot));
  const length = { snapshot: row.snapshot.length, tail: row.tail?.length ?? 0 };
  return { taskNo: Number(row.taskNo), version: row.version, stateVersion: row.stateVersion, task, length };
}

/**
 * Whether the lease is the one that this request made and whose answer was lost. A claim keeps the turn, but is counted:
 * also one by the replica that held it before.
 */
export function isLeaseOf(row: DecisionRow, lease: LeaseRequest | undefined): boolean {
  return row.leaseTurnId === lease?.turnId && row.leaseHolder === lease?.holder && row.leaseClaims === 0;
}

/** The task waits for its client: nobody runs it, or the turn that runs has said what it needs. */
export function isWaiting(row: Pick<TaskRow, 'state' | 'stateVersion'> & { admittedVersion: number | null }): boolean {
  const asked = row.admittedVersion === null || row.stateVersion > row.admittedVersion;
  return asked && isInterrupted(stateOfRow(row));
}

export const stateOfRow = (row: Pick<TaskRow, 'state'>): TaskState => stateNamed(row.state);

export function foundTask(row: FoundRow): FoundTask {
  const { tenant, owner, taskId } = row;
  return { ...storedTask(row), scope: { tenant, owner, taskId }, waiting: isWaiting(row) };
}

export function foundUpTo(row: FoundUpToRow): FoundTask | LargeTask {
  const { taskNo, version, stateVersion, contextId, snapshot, bytes, tenant, owner, taskId } = row;
  if (snapshot !== null) return foundTask({ ...row, snapshot });
  return {
    taskNo: Number(taskNo),
    version,
    stateVersion,
    scope: { tenant, owner, taskId },
    contextId,
    state: stateOfRow(row),
    waiting: isWaiting(row),
    bytes: Number(bytes),
  };
}
