import { Injectable } from '@nestjs/common';
import { RequestMalformedError, TaskNotFoundError, UnsupportedOperationError } from '@a2a-js/sdk/errors';
import { pause } from '../async/pause.js';
import { untilKnown } from '../async/until-known.js';
import { Heartbeat } from '../leases/heartbeat.js';
import type { LeaseRequest } from '../leases/lease-store.js';
import { stateName } from '../tasks/task-states.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import type { Admission } from '../tasks/task-store.js';
import { AbandonedRecovery } from './abandoned-recovery.js';
import type { TurnEntry } from './turn-entry.js';
import type { TurnExecution } from './turn-execution.js';

/** How often a follow-up looks whether the turn before it has let go, in ms. */
const LOOK_INTERVAL_MS = 50;

/**
 * Decides whether the turn of a message may run (I1): a follow-up by the state of its task and lease, under the task's row
 * lock; a new task at once, since nobody else knows its id.
 */
@Injectable()
export class TurnAdmission implements TurnEntry {
  readonly asksGuards = true;

  constructor(
    private readonly tasks: LeasedTaskStore,
    private readonly heartbeat: Heartbeat,
    private readonly recovery: AbandonedRecovery,
  ) {}

  async admit(turn: TurnExecution): Promise<boolean> {
    const lease = turn.leaseRequest();
    if (turn.subject.followUp) return this.admitFollowUp(turn, lease);
    turn.admittedToNewTask(lease);
    return true;
  }

  private async admitFollowUp(turn: TurnExecution, lease: LeaseRequest | undefined): Promise<boolean> {
    const { taskId, signal, subject } = turn;
    const giveUpAt = performance.now() + this.heartbeat.times.heartbeatIntervalMs;
    for (;;) {
      if (signal.aborted) throw signal.reason;
      const sentAt = performance.now();
      const admission = await this.tryAdmit(turn, lease);
      switch (admission.outcome) {
        case 'admitted':
          turn.admittedTo({ stored: admission.stored, generation: admission.generation, sentAt });
          return true;
        case 'unknown':
          throw new TaskNotFoundError(`Task not found: ${taskId}`);
        case 'lost':
          turn.lostAtAdmission(admission.stored);
          return false;
        case 'repeated':
          turn.messageRepeated(admission.taskNo);
          return false;
        case 'terminal':
          throw new UnsupportedOperationError(
            `Task ${taskId} has ended as ${stateName(admission.state)} and takes no more messages.`,
          );
        case 'otherContext':
          throw new RequestMalformedError(
            `message.contextId is not the one of task ${taskId}, which is ${admission.contextId}.`,
          );
        case 'abandoned':
          // Without leases of our own there is no recovering those of others.
          if (!this.heartbeat.isOn) throw busy(taskId);
          if (await this.recovery.recoverTask(subject.scope)) break;
          // Somebody else has it, or it waits until a replica may run it again.
          if (performance.now() >= giveUpAt) throw busy(taskId);
          await pause(LOOK_INTERVAL_MS);
          break;
        case 'busy':
          if (!admission.waiting || performance.now() >= giveUpAt) throw busy(taskId);
          await pause(LOOK_INTERVAL_MS);
      }
    }
  }

  /** One try, repeated where its answer was lost: by the turn id the store finds what it has done. */
  private tryAdmit({ turnId, subject }: TurnExecution, lease: LeaseRequest | undefined): Promise<Admission> {
    const { scope, request, receipt, push } = subject;
    const message = request!.message!;
    const options = { turnId, ...(receipt && { receipt }), ...(push && { push }) };
    const sentAt = performance.now();
    // Without a lease there is nothing by which the store would find it again.
    const giveUpAt = this.heartbeat.isOn ? this.heartbeat.deadlineFrom(sentAt) : sentAt;
    return untilKnown((again) => this.tasks.admit(scope, message, lease, { ...options, again }), giveUpAt);
  }
}

const busy = (taskId: string): Error =>
  new UnsupportedOperationError(`Task ${taskId} is being worked on and takes no message now.`);
