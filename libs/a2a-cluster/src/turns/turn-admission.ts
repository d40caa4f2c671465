import { Injectable } from '@nestjs/common';
import { RequestMalformedError, TaskNotFoundError, UnsupportedOperationError } from '@a2a-js/sdk/errors';
import { Backoff } from '../async/backoff.js';
import { untilKnown } from '../async/until-known.js';
import { Heartbeat } from '../leases/heartbeat.js';
import type { LeaseRequest } from '../leases/lease-store.js';
import { stateName } from '../tasks/task-states.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import type { Admission } from '../tasks/task-store.js';
import { AbandonedRecovery } from './abandoned-recovery.js';
import { LookQueue, type Place } from './look-queue.js';
import type { TurnEntry } from './turn-entry.js';
import type { TurnExecution } from './turn-execution.js';

/** The longest pause between two looks whether the turn before a follow-up has let go, in ms. */
const MAX_LOOK_PAUSE_MS = 500;

/** Why the wait of a follow-up ends. Given, since an abort without a reason makes an error, with its stack. */
const WAITED_LONG_ENOUGH = 'waited long enough';

/**
 * Decides whether the turn of a message may run (I1): a follow-up by the state of its task and lease, under the task's row
 * lock; a new task at once, since nobody else knows its id.
 */
@Injectable()
export class TurnAdmission implements TurnEntry {
  readonly asksGuards = true;
  private readonly queue = new LookQueue();

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
    const { scope } = turn.subject;
    // Looks take the task's lock, so of those who wait here for one task one looks, and not often.
    const place = this.queue.enter(JSON.stringify([scope.tenant, scope.owner, scope.taskId]));
    const stop = new AbortController();
    const giveUp = (): void => stop.abort(WAITED_LONG_ENOUGH);
    const timer = setTimeout(giveUp, this.heartbeat.times.heartbeatIntervalMs);
    const stops = [turn.signal, turn.subject.gone];
    for (const signal of stops) {
      if (signal?.aborted) giveUp();
      signal?.addEventListener('abort', giveUp, { once: true });
    }
    try {
      return await this.untilDecided(turn, lease, place, stop.signal);
    } finally {
      clearTimeout(timer);
      for (const signal of stops) signal?.removeEventListener('abort', giveUp);
      place.leave();
    }
  }

  private async untilDecided(
    turn: TurnExecution,
    lease: LeaseRequest | undefined,
    place: Place,
    stop: AbortSignal,
  ): Promise<boolean> {
    const { taskId, signal, subject } = turn;
    const backoff = new Backoff(MAX_LOOK_PAUSE_MS);
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
          await this.mayLookAgain(place, backoff, stop);
          if (stop.aborted) throw busy(taskId);
          break;
        case 'busy':
          if (!admission.waiting) throw busy(taskId);
          await this.mayLookAgain(place, backoff, stop);
          if (stop.aborted) throw busy(taskId);
      }
    }
  }

  /** Waits for those ahead; whoever is first pauses between two looks. */
  private async mayLookAgain(place: Place, backoff: Backoff, stop: AbortSignal): Promise<void> {
    if (place.isFirst) await backoff.pause();
    else await place.reached(stop);
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
