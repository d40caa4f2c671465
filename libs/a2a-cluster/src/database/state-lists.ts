import { TaskState, taskStateToJSON } from '@a2a-js/sdk';

/** In these a task has ended. */
export const TERMINAL_STATES = [
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
  TaskState.TASK_STATE_REJECTED,
];

/** In these it waits for its client. */
export const INTERRUPTED_STATES = [TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED];

const listOf = (states: readonly TaskState[]): string =>
  `(${states.map((state) => `'${taskStateToJSON(state)}'`).join(', ')})`;

/** The terminal states as statements name them: as literals, so that partial indexes serve. */
export const TERMINAL_LIST = listOf(TERMINAL_STATES);

/** The states in which a task waits, in the same way. */
export const INTERRUPTED_LIST = listOf(INTERRUPTED_STATES);

/** All of these: in any other state somebody has to run the task. */
export const SETTLED_LIST = listOf(TERMINAL_STATES.concat(INTERRUPTED_STATES));
