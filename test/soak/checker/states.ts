const TERMINAL = ['COMPLETED', 'FAILED', 'CANCELED', 'REJECTED'].map((name) => `TASK_STATE_${name}`);
const WAITING = ['INPUT_REQUIRED', 'AUTH_REQUIRED'].map((name) => `TASK_STATE_${name}`);

export const isTerminal = (state: string | undefined): boolean => state !== undefined && TERMINAL.includes(state);

/** It is its user's turn. */
export const isInterrupted = (state: string | undefined): boolean => state !== undefined && WAITING.includes(state);
