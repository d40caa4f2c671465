import type { Heartbeat } from '../leases/heartbeat.js';
import type { LeaseStore } from '../leases/lease-store.js';
import type { Poller } from '../streams/poller.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import { isTerminal } from '../tasks/task-states.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import type { RunningTurns } from './running-turns.js';
import type { TurnExecution } from './turn-execution.js';

/**
 * Learns between two heartbeats that a turn of this replica is to be canceled, or is no longer this replica's: at a
 * wake-up for its task, and at every poll in case the wake-up was lost.
 */
export class LeaseWatch {
  constructor(
    private readonly running: RunningTurns,
    private readonly tasks: VersionedTaskStore,
    private readonly leases: LeaseStore,
    private readonly heartbeat: Heartbeat | undefined,
    stream: TaskEventStream,
    poller: Poller,
  ) {
    stream.onWakeup((taskNos) => {
      const woken = taskNos && new Set(taskNos);
      const concerned = [...running].filter(({ loop }) => !woken || (loop?.key && woken.has(loop.key.taskNo)));
      if (concerned.length > 0) void this.look(concerned).catch(() => undefined); // the poll looks again
    });
    poller.register(() => this.runOnce());
  }

  /** Looks after all running turns. */
  async runOnce(): Promise<void> {
    await this.look([...this.running]);
  }

  private async look(turns: TurnExecution[]): Promise<void> {
    if (this.heartbeat) {
      const generations = turns.flatMap(({ lease }) => (lease ? [lease.generation] : []));
      if (generations.length === 0) return;
      this.heartbeat.report(generations, await this.leases.inspect(generations));
      return;
    }
    // Without leases the task itself is all there is to see: a cancel from elsewhere shows as its end.
    for (const turn of turns) {
      const stored = turn.loop?.key && (await this.tasks.findByNo(turn.loop.key.taskNo));
      if (stored && isTerminal(stored.task.status?.state ?? 0)) turn.onLost('the task has ended');
    }
  }
}
