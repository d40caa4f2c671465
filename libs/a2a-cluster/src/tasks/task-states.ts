import { type Task, TaskState, taskStateFromJSON, taskStateToJSON } from '@a2a-js/sdk';

/** In these a task has ended. */
export const TERMINAL_STATES: readonly TaskState[] = [
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
  TaskState.TASK_STATE_REJECTED,
];

/** In these it waits for its client. */
export const INTERRUPTED_STATES: readonly TaskState[] = [
  TaskState.TASK_STATE_INPUT_REQUIRED,
  TaskState.TASK_STATE_AUTH_REQUIRED,
];

const TERMINAL: ReadonlySet<TaskState> = new Set(TERMINAL_STATES);

const INTERRUPTED: ReadonlySet<TaskState> = new Set(INTERRUPTED_STATES);

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
export const stateNamed = (name: string): TaskState => taskStateFromJSON(name);

/** The state of a task, UNSPECIFIED where it has none. */
export const stateOf = (task: Task | undefined): TaskState => task?.status?.state ?? TaskState.TASK_STATE_UNSPECIFIED;
