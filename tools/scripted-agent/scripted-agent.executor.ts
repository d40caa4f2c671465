import { Injectable } from '@nestjs/common';
import { TaskState } from '@a2a-js/sdk';
import type { AgentExecutor, ExecutionEventBus, RequestContext } from '@a2a-js/sdk/server';
import { currentTurn, type Turn } from 'nestjs-a2a-cluster';
import { Ledger } from './ledger/ledger.service.js';
import { describeError } from '../../apps/sample/src/describe-error.js';
import { writeLine } from '../harness/output.js';
import { textOf } from '../harness/text.js';
import type { CommandContext } from './command.context.js';
import { runCommand } from './commands.js';
import { type Command, parseScript, ScriptError } from './script.parser.js';
import { EventNumbers, TurnPublisher } from './turn.publisher.js';

/** What this process runs of a task, as far as a cancel must know it. */
interface Run {
  readonly numbers: EventNumbers;
  readonly context: CommandContext;
}

/** An agent that does what the text of a message says, so that people and tests can steer it from outside. */
@Injectable()
export class ScriptedAgent implements AgentExecutor {
  private readonly runs = new Map<string, Run>();

  constructor(private readonly ledger: Ledger) {}

  async execute(request: RequestContext, bus: ExecutionEventBus): Promise<void> {
    const turn = currentTurn();
    const numbers = EventNumbers.after(request.task);
    const publisher = new TurnPublisher(bus, request.taskId, request.contextId, numbers, turn);
    const { messageId } = request.userMessage;
    const run: Run = { numbers, context: { turn, publisher, ledger: this.ledger, messageId, deaf: false } };
    this.runs.set(request.taskId, run);
    if (turn.attempt > 1) writeLine(`task ${turn.taskId}: attempt ${turn.attempt}`);
    reportAbort(turn);
    try {
      await runScript(request, run.context);
    } catch (error) {
      if (!turn.signal.aborted) throw error;
    } finally {
      if (this.runs.get(request.taskId) === run) this.runs.delete(request.taskId);
    }
    if (turn.signal.aborted) await reportLateEvent(run.context);
  }

  /**
   * The signal of a running turn has aborted by now; all that is left is to say so. A task that is not running here is
   * waiting: nothing is known of its events, but CANCELED is its last, so that any high number does.
   */
  cancelTask(taskId: string, bus: ExecutionEventBus): Promise<void> {
    const run = this.runs.get(taskId);
    if (run?.context.deaf) return Promise.resolve();
    const numbers = run?.numbers ?? new EventNumbers(Date.now());
    const turn = currentTurn();
    const publisher = new TurnPublisher(bus, taskId, turn.contextId, numbers, turn);
    publisher.status(TaskState.TASK_STATE_CANCELED, 'canceled on request');
    return Promise.resolve();
  }
}

async function runScript(request: RequestContext, context: CommandContext): Promise<void> {
  const { turn, publisher } = context;
  const script = readScript(request);
  const withoutTask = Array.isArray(script) && script[0]?.name === 'reply';
  if (!withoutTask) {
    if (request.task === undefined) publisher.task(request.userMessage);
    else publisher.status(TaskState.TASK_STATE_WORKING, turn.attempt > 1 ? `attempt ${turn.attempt}` : undefined);
  }
  if (script instanceof ScriptError) return publisher.status(TaskState.TASK_STATE_FAILED, script.message);
  for (const [index, command] of script.entries()) {
    if ((await runCommand(command, index + 1, context)) === 'ends') return;
  }
  // An `auth` with nothing after it leaves the task to its user.
  if (script.at(-1)?.name !== 'auth') publisher.status(TaskState.TASK_STATE_COMPLETED);
}

function readScript(request: RequestContext): Command[] | ScriptError {
  try {
    return parseScript(textOf(request.userMessage));
  } catch (error) {
    if (error instanceof ScriptError) return error;
    throw error;
  }
}

function reportAbort(turn: Turn): void {
  const report = () => writeLine(`task ${turn.taskId}: signal aborted: ${codeOf(turn.signal.reason)}`);
  if (turn.signal.aborted) report();
  else turn.signal.addEventListener('abort', report, { once: true });
}

/** Shows that a turn which lost its lease can say what it likes: nobody hears it. */
async function reportLateEvent({ turn, publisher }: CommandContext): Promise<void> {
  if (codeOf(turn.signal.reason) !== 'A2A_LEASE_LOST') return;
  try {
    publisher.status(TaskState.TASK_STATE_WORKING, 'I am still here');
    await turn.flush();
    turn.assertHeld();
    writeLine(`task ${turn.taskId}: late event accepted`);
  } catch (error) {
    writeLine(`task ${turn.taskId}: late event refused: ${codeOf(error)}`);
  }
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : describeError(error);
}
