import type { TaskScope } from '../../tasks/task-scope.js';

/** A scope as parameters. */
export const SCOPE: TaskScope = { tenant: '$tenant', owner: '$owner', taskId: '$taskId' };

/** The parameters of a statement about one task of an agent. */
export interface TaskOfAgent extends TaskScope {
  agent: string;
}

/**
 * The row of one task, found by its id alone: tenant and owner are compared in a way that no index serves. Otherwise a
 * planner without statistics may as well take an index of lists and read all tasks of the owner, and a prepared
 * statement keeps to that until the table is analyzed.
 */
export const isTask = (t: string, scope: TaskScope): string =>
  `${t}.task_id = ${scope.taskId} AND ${t}.tenant IS NOT DISTINCT FROM ${scope.tenant}
     AND ${t}.owner IS NOT DISTINCT FROM ${scope.owner}`;
