/**
 * The first line of what an error says. A refused connection arrives as an AggregateError without a message of its own;
 * its first cause speaks for it.
 */
export function describeError(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return describeError(error.errors[0]);
  const text = error instanceof Error ? error.message || error.name : String(error);
  return text.split('\n', 1)[0] ?? text;
}
