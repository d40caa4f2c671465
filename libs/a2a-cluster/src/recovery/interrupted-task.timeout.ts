import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import { Injectable } from '@nestjs/common';
import { messageOf } from '../errors/described.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import { failed } from '../turns/status-events.js';
import type { Sweeper } from './sweeper.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { LibraryLogger } from '../logging/library.logger.js';

const BATCH_TASKS = 100;

type OverdueTask = Awaited<ReturnType<VersionedTaskStore['overdue']>>[number];

/** Ends tasks whose client has not answered for too long (option `interruptedTaskTimeoutMs`). */
@Injectable()
export class InterruptedTaskTimeout implements Sweeper {
  private readonly logger = new LibraryLogger(InterruptedTaskTimeout.name);
  private running: Promise<number> | undefined;
  private stopped = false;
  private readonly timeoutMs: number | undefined;

  constructor(
    private readonly tasks: LeasedTaskStore,
    private readonly stream: TaskEventStream,
    { interruptedTaskTimeoutMs }: ResolvedOptions,
  ) {
    this.timeoutMs = interruptedTaskTimeoutMs;
  }

  /** Whether there is such a time. */
  get isOn(): boolean {
    return this.timeoutMs !== undefined;
  }

  /** Ends all that are overdue now; returns how many were looked at. */
  runOnce(): Promise<number> {
    this.running ??= this.sweep().finally(() => (this.running = undefined));
    return this.running;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.running?.catch(() => undefined);
  }

  private async sweep(): Promise<number> {
    const { timeoutMs } = this;
    if (timeoutMs === undefined) return 0;
    let looked = 0;
    let last = 0;
    while (!this.stopped) {
      const batch = await this.tasks.overdue(timeoutMs, BATCH_TASKS, last);
      for (const task of batch) await this.end(task);
      looked += batch.length;
      last = batch.at(-1)?.taskNo ?? last;
      if (batch.length < BATCH_TASKS) break;
    }
    return looked;
  }

  /** Under the task's lock: a message that came meanwhile has moved on what this decision was about. */
  private async end({ taskNo, scope, stateVersion }: OverdueTask): Promise<void> {
    const text = `The client did not answer within ${this.timeoutMs} ms.`;
    try {
      await this.tasks.forceEnd(scope, ({ id, contextId }) => failed({ taskId: id, contextId }, text), {
        idleSince: stateVersion,
      });
      this.stream.changed(taskNo);
    } catch (error) {
      this.logger.error(`Task ${scope.taskId} is overdue and could not be ended: ${messageOf(error)}`);
    }
  }
}
