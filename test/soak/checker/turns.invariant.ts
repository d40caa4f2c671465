import type { AuditRow } from '../dump.js';
import type { Json } from '../recording.js';
import { type History, type TaskHistory, transactionsOf } from './history.js';
import { numberAt, textAt } from './json.js';
import type { LogEvent } from './task-log.js';
import type { Violation } from './violation.js';

/** The lease of a task before and after one transaction, and what else that did. */
export interface Step {
  readonly rows: readonly AuditRow[];
  readonly before: Json | undefined;
  readonly after: Json | undefined;
  readonly events: readonly LogEvent[];
}

/** A task's life, transaction by transaction. */
export function stepsOf({ audit, log }: TaskHistory): Step[] {
  const byVersion = new Map(log.events.map((event) => [event.version, event]));
  let lease: Json | undefined;
  return transactionsOf(audit).map((rows) => {
    const before = lease;
    for (const { source, op, after } of rows) {
      if (source === 'lease') lease = op === 'delete' ? undefined : (after ?? undefined);
    }
    const events = rows.flatMap(({ source, op, after }) => {
      const event = byVersion.get(numberAt(after ?? undefined, 'version') ?? 0);
      return source === 'event' && op === 'insert' && event ? [event] : [];
    });
    return { rows, before, after: lease, events };
  });
}

const generationOf = (lease: Json | undefined): number | undefined => numberAt(lease, 'generation');

/**
 * I1, I3: of one task, one turn after the other. A lease begins under a generation that the task never had; nothing but
 * a new generation gives it to another holder; and an executor's event is stored only in the time of its own.
 */
export function turns(history: History): Violation[] {
  return [...history.tasks.values()].flatMap((task) => [
    ...leaseChanges(task),
    ...staleEvents(task),
    ...overlaps(task),
  ]);
}

function leaseChanges({ row: { taskId }, audit }: TaskHistory): Violation[] {
  const violations: Violation[] = [];
  let highest = 0;
  let present = false;
  for (const { source, op, before, after, seq } of audit) {
    if (source !== 'lease') continue;
    const generation = generationOf(after ?? undefined);
    const found = (invariant: string, text: string): void => {
      violations.push({ invariant, taskId, text: `${text} (audit ${seq})` });
    };
    if (op === 'insert') {
      if (present) found('I1', `a second lease was made, of generation ${generation}, while there was one`);
      if ((generation ?? 0) <= highest) found('I3', `a lease of generation ${generation} was made after ${highest}`);
    }
    if (op === 'update' && before && after) {
      const moved = generation !== generationOf(before);
      if (moved && (generation ?? 0) <= highest)
        found('I3', `a lease went from generation ${highest} to ${generation}`);
      if (!moved && textAt(before, 'holder') !== textAt(after, 'holder')) {
        found('I1', `a lease changed hands under generation ${generation}`);
      }
    }
    present = op !== 'delete';
    highest = Math.max(highest, generation ?? 0);
  }
  return violations;
}

function staleEvents(task: TaskHistory): Violation[] {
  const { taskId } = task.row;
  // A new task's executor has no token before its first commit, with which the lease begins.
  let first: number | undefined;
  return stepsOf(task).flatMap(({ rows, before, after, events }) => {
    first ??= generationOf(after);
    const allowed = [generationOf(before), generationOf(after)];
    return events.flatMap(({ attempt, fencingToken, version }): Violation[] => {
      // What the cluster wrote itself is held against the lease by the invariant of the leases.
      if (attempt === undefined) return [];
      const writer = fencingToken ?? first;
      if (writer === undefined || allowed.includes(writer)) return [];
      const current = allowed[0] === undefined ? 'nobody ran the task' : `the lease was of generation ${allowed[0]}`;
      const text = `event ${version} was stored by generation ${writer} while ${current} (audit ${rows[0]?.seq})`;
      return [{ invariant: 'I3', taskId, text }];
    });
  });
}

function overlaps({ row: { taskId }, log }: TaskHistory): Violation[] {
  let highest = 0;
  return log.events.flatMap(({ fencingToken, version }): Violation[] => {
    if (fencingToken === undefined) return [];
    const behind = fencingToken < highest;
    const text = `event ${version} is of generation ${fencingToken}, after one of ${highest}: two turns overlap`;
    highest = Math.max(highest, fencingToken);
    return behind ? [{ invariant: 'I1', taskId, text }] : [];
  });
}
