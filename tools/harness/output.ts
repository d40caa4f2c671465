/** Writes one line to stdout: what this process has to say to whoever started it. */
export function writeLine(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Writes one line to stderr: why this process cannot go on, or what went wrong in it. */
export function writeErrorLine(text: string): void {
  process.stderr.write(`${text}\n`);
}
