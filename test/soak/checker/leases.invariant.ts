import { type History, type TaskHistory } from './history.js';
import { textAt } from './json.js';
import { isInterrupted, isTerminal } from './states.js';
import { stepsOf } from './turns.invariant.js';
import type { Violation } from './violation.js';

/** I2: a lease is there exactly while a turn runs, at the end of every single transaction; and none is left at the end. */
export function leases(history: History): Violation[] {
  const { dump, byNo, tasks } = history;
  const left = dump.leases.map(({ taskNo, generation, holder }): Violation => {
    const task = byNo.get(taskNo);
    const text = `a lease is left over, of generation ${generation}, held by ${holder}`;
    return { invariant: 'I2', ...(task && { taskId: task.row.taskId }), text };
  });
  return [...left, ...[...tasks.values()].flatMap(transactions)];
}

function transactions(task: TaskHistory): Violation[] {
  const { taskId } = task.row;
  let state: string | undefined;
  return stepsOf(task).flatMap(({ rows, after, events }) => {
    const violations: Violation[] = [];
    const found = (text: string): void => {
      violations.push({ invariant: 'I2', taskId, text: `${text} (audit ${rows[0]?.seq})` });
    };
    const set = rows.findLast(({ source, op }) => source === 'task' && op !== 'delete')?.after;
    state = textAt(set ?? undefined, 'state') ?? state;
    const running = !isTerminal(state) && !isInterrupted(state);
    if (running && !after) found(`the task is ${state} and has no lease`);
    if (isTerminal(state) && after) found(`the task is ${state} and has a lease`);
    const made = rows.some(({ source, op }) => source === 'lease' && op === 'insert');
    if (made && events.length === 0 && textAt(after, 'kind') !== 'cancel') {
      found('a lease was made without the message that its turn is about');
    }
    return violations;
  });
}
