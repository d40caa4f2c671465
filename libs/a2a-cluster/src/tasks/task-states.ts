import { TaskState, taskStateFromJSON, taskStateToJSON } from '@a2a-js/sdk';

const TERMINAL: ReadonlySet<TaskState> = new Set([
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
  TaskState.TASK_STATE_REJECTED,
]);

const INTERRUPTED: ReadonlySet<TaskState> = new Set([
  TaskState.TASK_STATE_INPUT_REQUIRED,
  TaskState.TASK_STATE_AUTH_REQUIRED,
]);

/** The task has ended: nothing changes it any more. */
export const isTerminal = (state: TaskState): boolean => TERMINAL.has(state);

/** The task waits for its client. */
export const isInterrupted = (state: TaskState): boolean => INTERRUPTED.has(state);

/** A status in this state ends the turn that published it, whether or not the executor has returned. */
export const endsTurn = (state: TaskState): boolean =>
  TERMINAL.has(state) || state === TaskState.TASK_STATE_INPUT_REQUIRED;

/** The protocol's name of a state, which is what the database holds. */
export const stateName = (state: TaskState): string => taskStateToJSON(state);

/** The state behind the protocol's name of it. */
export const stateOf = (name: string): TaskState => taskStateFromJSON(name);

const inList = (states: ReadonlySet<TaskState>): string =>
  `(${[...states].map((state) => `'${stateName(state)}'`).join(', ')})`;

/** The terminal states as statements name them: as literals, so that partial indexes serve. */
export const TERMINAL_LIST = inList(TERMINAL);

/** The states in which a task waits for its client, in the same way. */
export const INTERRUPTED_LIST = inList(INTERRUPTED);
