import { createReadStream, createWriteStream, type WriteStream } from 'node:fs';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Line, Untimed } from './recording.js';

/** Now, as every line of a recording has it. */
export const now = (): number => performance.timeOrigin + performance.now();

/** Writes down what clients saw and what was done to the cluster, one JSON line each, in the order it came about. */
export class Recorder {
  private readonly file: WriteStream;
  private calls = 0;

  constructor(path: string) {
    this.file = createWriteStream(path);
  }

  /** A number for a call, by which its lines are found again. */
  nextCall(): number {
    return (this.calls += 1);
  }

  /** Nothing, once it is closed: users of a run that was interrupted go on for a moment. */
  write(line: Untimed): void {
    if (this.file.writableEnded) return;
    this.file.write(`${JSON.stringify({ ...line, at: now() })}\n`);
  }

  async close(): Promise<void> {
    if (this.file.closed) return;
    this.file.end();
    await once(this.file, 'close');
  }
}

/** The lines of a recording that is complete. */
export async function readRecording(path: string): Promise<Line[]> {
  const lines: Line[] = [];
  for await (const text of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    if (text !== '') lines.push(JSON.parse(text) as Line);
  }
  return lines;
}
