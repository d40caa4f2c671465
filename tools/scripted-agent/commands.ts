import { setTimeout as pause } from 'node:timers/promises';
import { TaskState } from '@a2a-js/sdk';
import type { CommandContext } from './command.context.js';
import { charge, transfer } from './ledger.commands.js';
import type { Command } from './script.parser.js';

/** How often `work` says that it is still at work. */
const PROGRESS_MS = 250;

/** How many chunks a stream without pauses may be ahead of the database. */
const CHUNKS_AHEAD = 100;

/**
 * Runs one command and says whether the script goes on after it. Rejects when `turn.signal` aborts, at once, unless the
 * command is `deaf` or `block`.
 *
 * @param position of the command in its script, from 1
 */
export async function runCommand(
  command: Command,
  position: number,
  context: CommandContext,
): Promise<'goes on' | 'ends'> {
  const { turn, publisher } = context;
  switch (command.name) {
    case 'say':
      publisher.status(TaskState.TASK_STATE_WORKING, command.text);
      return 'goes on';
    case 'work':
      await work(command.seconds, context);
      return 'goes on';
    case 'deaf':
      context.deaf = true;
      await pause(command.seconds * 1000);
      context.deaf = false;
      return 'goes on';
    case 'stream':
      await stream(command, context);
      return 'goes on';
    case 'block':
      await turn.flush();
      blockEventLoop(command.seconds * 1000);
      return 'goes on';
    case 'ask':
      publisher.status(TaskState.TASK_STATE_INPUT_REQUIRED, command.text);
      return 'ends';
    case 'auth':
      publisher.status(TaskState.TASK_STATE_AUTH_REQUIRED, 'who are you?');
      if (command.seconds === undefined) return 'ends';
      await pause(command.seconds * 1000, undefined, { signal: turn.signal });
      return 'goes on';
    case 'charge':
      await charge(command, position, context);
      return 'goes on';
    case 'transfer':
      await transfer(command, position, context);
      return 'goes on';
    case 'throw':
      throw new Error(command.text);
    case 'exit':
      await turn.flush();
      process.kill(process.pid, 'SIGKILL');
      return 'ends';
    case 'reply':
      publisher.reply(command.text);
      return 'ends';
    case 'echo':
      publisher.status(TaskState.TASK_STATE_COMPLETED, command.text);
      return 'ends';
  }
}

async function work(seconds: number, { turn, publisher }: CommandContext): Promise<void> {
  const end = performance.now() + seconds * 1000;
  for (let left = seconds * 1000; left > 0; left = end - performance.now()) {
    publisher.status(TaskState.TASK_STATE_WORKING);
    await pause(Math.min(left, PROGRESS_MS), undefined, { signal: turn.signal });
  }
}

async function stream(command: Extract<Command, { name: 'stream' }>, context: CommandContext): Promise<void> {
  const { turn, publisher } = context;
  const { chunks, intervalMs, bytes } = command;
  for (let index = 1; index <= chunks; index++) {
    turn.signal.throwIfAborted();
    publisher.chunk({
      artifactId: `stream-${context.messageId}`,
      name: 'stream',
      text: `${index} `.padEnd(bytes, '.'),
      first: index === 1,
      last: index === chunks,
    });
    if (intervalMs > 0) await pause(intervalMs, undefined, { signal: turn.signal });
    else if (index % CHUNKS_AHEAD === 0) await turn.flush();
  }
}

/** Nothing in this process runs meanwhile: no heartbeat, no timer, no request. */
function blockEventLoop(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
