import { writeLine } from '../harness/output.js';

const TEXT_WIDTH = 76;

/** Tells on the terminal what happens: who, what, and after how many milliseconds. */
export class Story {
  private step = 0;

  /** Opens the next step. */
  begin(title: string): void {
    this.step++;
    writeLine(`\n${this.step}. ${title}`);
  }

  /** One thing that happened. */
  tell(who: string, text: string, ms?: number): void {
    const time = ms === undefined ? '' : `${Math.round(ms)} ms`.padStart(9);
    writeLine(`   ${who.padEnd(12)} ${time === '' ? text : text.padEnd(TEXT_WIDTH) + time}`);
  }

  /** The number of the step that is being told; 0 before the first. */
  get current(): number {
    return this.step;
  }
}

/** Milliseconds since a moment taken with `performance.now()`. */
export function since(start: number): number {
  return performance.now() - start;
}
