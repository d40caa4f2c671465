import { randomUUID } from 'node:crypto';
import { type Message, type Part, Role, type Task, TaskState, type TaskStatus } from '@a2a-js/sdk';
import { AgentEvent, type ExecutionEventBus } from '@a2a-js/sdk/server';
import type { Turn } from 'nestjs-a2a-cluster';
import { textPart } from '../harness/text.js';

/** One chunk of an artifact. */
export interface Chunk {
  readonly artifactId: string;
  readonly name: string;
  readonly text: string;
  readonly first: boolean;
  readonly last: boolean;
}

/** An artifact with a single part, or what is appended to one. */
export interface ArtifactPart {
  readonly artifactId: string;
  readonly name: string;
  readonly part: Part;
  readonly append: boolean;
  readonly lastChunk: boolean;
}

/**
 * The number each event of a task carries in its metadata as `n`: 1, 2, 3 … over all its turns, on whatever replica they
 * run, so that a reader can tell a missing event from one delivered twice.
 */
export class EventNumbers {
  constructor(private last: number) {}

  /** Goes on where the task stands: the metadata of an event is merged into the metadata of its task. */
  static after(task: Task | undefined): EventNumbers {
    const last: unknown = task?.metadata?.n;
    return new EventNumbers(typeof last === 'number' ? last : 0);
  }

  next(): { n: number } {
    return { n: ++this.last };
  }
}

/**
 * Publishes a turn's events: the SDK's long forms, and a number on each. With a turn also who wrote it: its attempt and,
 * once there is one, its fencing token, so that a reader of the log can tell whether the writer still had the lease.
 */
export class TurnPublisher {
  constructor(
    private readonly bus: ExecutionEventBus,
    private readonly taskId: string,
    private readonly contextId: string,
    private readonly numbers: EventNumbers,
    private readonly turn?: Pick<Turn, 'attempt' | 'fencingToken'>,
  ) {}

  /** The first event of a new task is the task itself. */
  task(userMessage: Message): void {
    this.bus.publish(
      AgentEvent.task({
        id: this.taskId,
        contextId: this.contextId,
        status: this.statusOf(TaskState.TASK_STATE_WORKING),
        artifacts: [],
        history: [userMessage],
        metadata: this.mark(),
      }),
    );
  }

  status(state: TaskState, text?: string): void {
    this.bus.publish(
      AgentEvent.statusUpdate({
        taskId: this.taskId,
        contextId: this.contextId,
        status: this.statusOf(state, text),
        metadata: this.mark(),
      }),
    );
  }

  chunk({ artifactId, name, text, first, last }: Chunk): void {
    this.artifact({ artifactId, name, part: textPart(text), append: !first, lastChunk: last });
  }

  artifact({ artifactId, name, part, append, lastChunk }: ArtifactPart): void {
    this.bus.publish(
      AgentEvent.artifactUpdate({
        taskId: this.taskId,
        contextId: this.contextId,
        artifact: { artifactId, name, description: '', parts: [part], metadata: undefined, extensions: [] },
        append,
        lastChunk,
        metadata: this.mark(),
      }),
    );
  }

  /** An answer to the sender alone, which belongs to no task. */
  reply(text: string): void {
    this.bus.publish(AgentEvent.message({ ...this.message(text, ''), metadata: this.mark() }));
  }

  private mark(): Record<string, unknown> {
    const { attempt, fencingToken } = this.turn ?? {};
    return {
      ...this.numbers.next(),
      ...(attempt !== undefined && { attempt }),
      ...(fencingToken !== undefined && { fencingToken }),
    };
  }

  private statusOf(state: TaskState, text?: string): TaskStatus {
    const message = text === undefined ? undefined : this.message(text, this.taskId);
    return { state, message, timestamp: new Date().toISOString() };
  }

  private message(text: string, taskId: string): Message {
    return {
      messageId: randomUUID(),
      contextId: this.contextId,
      taskId,
      role: Role.ROLE_AGENT,
      parts: [textPart(text)],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    };
  }
}
