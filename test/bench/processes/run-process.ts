import { fork } from 'node:child_process';

const READY = 'ready';

/**
 * Runs a measure in a process of its own, whose memory and event loop are nobody else's, and returns what it answers.
 * `onReady` is called when it says that it is ready.
 *
 * @throws {Error} where it ends without an answer; what it wrote to standard error is there already
 */
export function runProcess<T>(name: string, input: object, onReady: () => void = () => undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const child = fork(new URL(`./${name}.process.js`, import.meta.url), [JSON.stringify(input)], {
      execArgv: ['--expose-gc'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    let answer: { value: T } | undefined;
    child.on('message', (message) => {
      if (message === READY) onReady();
      else answer = message as { value: T };
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0 && answer) resolve(answer.value);
      else reject(new Error(`The process ${name} ended with ${signal ?? String(code)} and no answer`));
    });
  });
}

/** The other end: does the work that `runProcess` has asked for and ends the process. */
export async function answerParent<I>(work: (input: I, ready: () => void) => Promise<unknown>): Promise<void> {
  try {
    const value = await work(JSON.parse(process.argv[2] ?? '{}') as I, () => process.send!(READY));
    await new Promise((resolve) => process.send!({ value }, resolve));
    process.disconnect();
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? String(error.stack) : String(error)}\n`);
    process.exit(1);
  }
}

/** The live heap in MB: what is left after garbage was collected. */
export function liveHeapMB(): number {
  global.gc!();
  return process.memoryUsage().heapUsed / 2 ** 20;
}
