import { Injectable } from '@nestjs/common';
import { Heartbeat } from '../leases/heartbeat.js';
import { LeaseStore } from '../leases/lease-store.js';
import { SeparateLeaseStore } from '../leases/separate-lease-store.js';
import { Poller } from '../streams/poller.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { isTerminal, stateOf } from '../tasks/task-states.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import type { TaskPosition } from '../tasks/task-store.js';
import { RunningTurns } from './running-turns.js';
import type { TurnExecution } from './turn-execution.js';

/**
 * Learns between two heartbeats that a turn of this replica is to be canceled, is no longer this replica's, or that its
 * task is gone: at a wake-up for its task, and at every poll in case the wake-up was lost.
 */
@Injectable()
export class LeaseWatch {
  /** Whether a look at the leases tells of tasks that are gone too. */
  private readonly leasesKnowTasks: boolean;

  constructor(
    private readonly running: RunningTurns,
    private readonly tasks: LeasedTaskStore,
    private readonly leases: LeaseStore,
    private readonly heartbeat: Heartbeat,
    stream: TaskEventStream,
    poller: Poller,
  ) {
    this.leasesKnowTasks = heartbeat.isOn && !(leases instanceof SeparateLeaseStore);
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
    await Promise.all([this.lookAtLeases(turns), this.leasesKnowTasks ? undefined : this.lookAtTasks(turns)]);
  }

  private async lookAtLeases(turns: TurnExecution[]): Promise<void> {
    if (!this.heartbeat.isOn) return;
    const generations = turns.flatMap(({ lease }) => (lease ? [lease.generation] : []));
    if (generations.length === 0) return;
    this.heartbeat.report(generations, await this.leases.inspect(generations));
  }

  /**
   * Without leases the task itself is all there is to see: a cancel from elsewhere shows as its end. Leases that are kept
   * in another place outlive a task that was deleted.
   */
  private async lookAtTasks(turns: TurnExecution[]): Promise<void> {
    const stored = turns.flatMap((turn) => {
      const key = turn.loop?.key;
      return key ? [{ turn, taskNo: key.taskNo, version: key.version }] : [];
    });
    if (stored.length === 0) return;
    const positions = await this.tasks.positions(stored.map(({ taskNo }) => taskNo));
    for (const { turn, taskNo, version } of stored) {
      const position = positions.get(taskNo);
      if (!position) turn.onLost('the task was deleted');
      else if (!this.heartbeat.isOn && (await this.hasEnded(taskNo, position, version)))
        turn.onLost('the task has ended');
    }
  }

  /** A store that does not say is asked for the task, where somebody else has written to it. */
  private async hasEnded(taskNo: number, position: TaskPosition, known: number): Promise<boolean> {
    if (position.ended !== undefined) return position.ended;
    if (position.version === known) return false;
    const stored = await this.tasks.findByNo(taskNo);
    return isTerminal(stateOf(stored?.task));
  }
}
