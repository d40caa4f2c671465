import { inspect } from 'node:util';

/** A message goes into a task's status and from there to clients: what is longer is cut, in characters. */
const MAX_MESSAGE = 8_192;

/**
 * The message of whatever was thrown, as text: users throw anything, and some of it cannot be made into text by itself
 * (an object without a prototype, a getter that throws). Never throws.
 */
export function messageOf(thrown: unknown): string {
  return cut(described(thrown, (error) => error.message));
}

/** The same with its stack and its causes, for the log. Never throws. */
export function detailOf(thrown: unknown): string {
  return described(thrown, (error) => error.stack ?? error.message) + causeOf(thrown);
}

function described(thrown: unknown, ofError: (error: Error) => unknown): string {
  try {
    const value = thrown instanceof Error ? ofError(thrown) : thrown;
    if (typeof value === 'string') return value;
    if (typeof value !== 'object' || value === null) return String(value);
  } catch {
    // The rest looks at it without running any of its code.
  }
  try {
    const shown = thrown instanceof Error ? ofError(thrown) : thrown;
    return inspect(shown, { customInspect: false, getters: false, depth: 1, breakLength: Infinity });
  } catch {
    return 'a value that cannot be shown';
  }
}

/** A sentence that names the cause of an error; empty where it has none. Never throws. */
export function causeOf(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error) || thrown.cause === undefined) return '';
    return ` Cause: ${described(thrown.cause, (cause) => cause.stack ?? cause.message)}`;
  } catch {
    return '';
  }
}

const cut = (text: string): string => (text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE)}…` : text);
