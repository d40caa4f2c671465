import { setImmediate as turnOfTheLoop, setTimeout as pause } from 'node:timers/promises';
import { type Task, TaskState } from '@a2a-js/sdk';
import { AgentEvent, type ExecutionEventBus, type RequestContext } from '@a2a-js/sdk/server';
import { textOf, textPart } from '../../../tools/harness/text.js';

/** What a contender offers to the script besides its bus. */
export interface ScriptHost {
  /** Waits until everything published is stored, where publishing itself does not amount to a commit each. */
  stored(): Promise<void>;
  /** Resolves when turns that hold are to end. */
  released: Promise<void>;
}

/**
 * The agent of the bench, the same for all contenders. Its message says what it does:
 * - `turn`: three events, each in a commit of its own;
 * - `stream N BYTES`: N chunks as fast as the event loop comes round;
 * - `paced N MS BYTES`: N chunks, one every MS, each with the monotonic time of its publication;
 * - `hold`: works until it is released;
 * - `busy MS BYTES`: a chunk every MS until it is released.
 */
export async function runScript(context: RequestContext, bus: ExecutionEventBus, host: ScriptHost): Promise<void> {
  const [command, ...numbers] = textOf(context.userMessage).split(' ');
  const [first = 0, second = 0, third = 0] = numbers.map(Number);
  const publisher = new Publisher(context, bus);
  switch (command) {
    case 'turn':
      publisher.task(TaskState.TASK_STATE_SUBMITTED);
      await host.stored();
      publisher.status(TaskState.TASK_STATE_WORKING);
      await host.stored();
      break;
    case 'stream': {
      publisher.task(TaskState.TASK_STATE_WORKING);
      const text = 'x'.repeat(second);
      for (let chunk = 0; chunk < first; chunk += 1) {
        publisher.chunk(text);
        await turnOfTheLoop();
      }
      break;
    }
    case 'paced': {
      publisher.task(TaskState.TASK_STATE_WORKING);
      await host.released;
      const text = 'x'.repeat(third);
      const begun = monotonicMs();
      for (let chunk = 0; chunk < first; chunk += 1) {
        await pause(Math.max(0, begun + chunk * second - monotonicMs()));
        publisher.chunk(text, { publishedAt: monotonicMs() });
      }
      break;
    }
    case 'hold':
      publisher.task(TaskState.TASK_STATE_WORKING);
      await host.released;
      break;
    case 'busy': {
      publisher.task(TaskState.TASK_STATE_WORKING);
      const text = 'x'.repeat(second);
      let over = false;
      void host.released.then(() => (over = true));
      while (!over) {
        publisher.chunk(text);
        await pause(first);
      }
      break;
    }
    default:
      throw new Error(`The bench's agent knows no ${command}`);
  }
  publisher.status(TaskState.TASK_STATE_COMPLETED);
}

/** Monotonic and the same in all processes of a machine, in ms. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

class Publisher {
  private chunks = 0;

  constructor(
    private readonly context: RequestContext,
    private readonly bus: ExecutionEventBus,
  ) {}

  task(state: TaskState): void {
    const { taskId: id, contextId, userMessage } = this.context;
    const status = { state, message: undefined, timestamp: new Date().toISOString() };
    const task: Task = { id, contextId, status, artifacts: [], history: [userMessage], metadata: undefined };
    this.bus.publish(AgentEvent.task(task));
  }

  status(state: TaskState): void {
    const { taskId, contextId } = this.context;
    const status = { state, message: undefined, timestamp: new Date().toISOString() };
    this.bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: undefined }));
  }

  chunk(text: string, metadata?: Record<string, unknown>): void {
    const { taskId, contextId } = this.context;
    const parts = [textPart(text)];
    this.bus.publish(
      AgentEvent.artifactUpdate({
        taskId,
        contextId,
        append: this.chunks > 0,
        lastChunk: false,
        metadata,
        artifact: { artifactId: 'a', name: '', description: '', parts, metadata: undefined, extensions: [] },
      }),
    );
    this.chunks += 1;
  }
}
