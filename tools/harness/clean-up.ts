import { describeError } from '../../apps/sample/src/describe-error.js';
import { writeErrorLine } from './output.js';

/** What must be undone before the demo ends, however it ends. The last thing begun is undone first. */
export class CleanUp {
  private readonly actions: (() => Promise<void>)[] = [];
  private running: Promise<void> | undefined;

  /** Whether it is too late to begin anything. */
  get begun(): boolean {
    return this.running !== undefined;
  }

  add(action: () => Promise<void>): void {
    this.actions.push(action);
  }

  /** Undoes everything; one action that fails does not stop the others. Every call answers the same run. */
  run(): Promise<void> {
    return (this.running ??= this.runAll());
  }

  private async runAll(): Promise<void> {
    for (let action = this.actions.pop(); action !== undefined; action = this.actions.pop()) {
      await action().catch((error: unknown) => writeErrorLine(`clean-up: ${describeError(error)}`));
    }
  }
}
