/** How the lines begin that the SDK's handlers, and gRPC, write for errors which they answer or throw as well. */
const SDK_LINE =
  /^(Pre-stream error|Error during SSE streaming|SSE streaming error|Unhandled error in JSON-RPC|E No address added)/;

/** Silences those lines of `console.error`, and nothing else. Returns what takes it back. */
export function quietSdk(): () => void {
  const { error } = console;
  const filtered = (...args: unknown[]): void => {
    if (!(typeof args[0] === 'string' && SDK_LINE.test(args[0]))) error(...args);
  };
  Object.assign(console, { error: filtered });
  return () => void Object.assign(console, { error });
}
