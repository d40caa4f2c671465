import { type TaskState, taskStateToJSON } from '@a2a-js/sdk';
import { INTERRUPTED_STATES, TERMINAL_STATES } from '../../tasks/task-states.js';

const listOf = (states: readonly TaskState[]): string =>
  `(${states.map((state) => `'${taskStateToJSON(state)}'`).join(', ')})`;

/** The terminal states as statements name them: as literals, so that partial indexes serve. */
export const TERMINAL_LIST = listOf(TERMINAL_STATES);

/** The states in which a task waits, in the same way. */
export const INTERRUPTED_LIST = listOf(INTERRUPTED_STATES);

/** All of these: in any other state somebody has to run the task. */
export const SETTLED_LIST = listOf([...TERMINAL_STATES, ...INTERRUPTED_STATES]);
