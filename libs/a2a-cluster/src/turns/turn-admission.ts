import { SendMessageRequest } from '@a2a-js/sdk';
import { RequestMalformedError, TaskNotFoundError, UnsupportedOperationError } from '@a2a-js/sdk/errors';
import { untilKnown } from '../async/until-known.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { MessageRepeatedError } from '../errors/message-repeated.error.js';
import type { Heartbeat } from '../leases/heartbeat.js';
import type { LeaseRequest } from '../leases/lease-store.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import { copyTask } from '../tasks/task-event.codec.js';
import { isTerminal, stateName } from '../tasks/task-states.js';
import type { Admission, StoredTask, TaskScope, VersionedTaskStore } from '../tasks/task-store.js';
import { CommitLoop } from './commit-loop.js';
import type { Committed } from './commit-target.js';
import type { ContextCodec } from '../options/context-codec.js';
import type { Admitted, TurnExecution } from './turn-execution.js';

/** How often a follow-up looks whether the turn before it has let go, in ms. */
const LOOK_INTERVAL_MS = 50;

/** Recovers what a dead replica left of a task, so that a follow-up or a cancel can go on. False: nothing was claimed. */
export type RecoverAbandoned = (scope: TaskScope) => Promise<boolean>;

/**
 * Decides whether a turn may run (I1): a follow-up by the state of its task and lease, under the task's row lock; a new
 * task at once, since nobody else knows its id.
 */
export class TurnAdmission {
  private recoverAbandoned: RecoverAbandoned = () => Promise.resolve(false);

  constructor(
    private readonly tasks: VersionedTaskStore,
    private readonly stream: TaskEventStream,
    /** None where leases are off. */
    private readonly heartbeat: Heartbeat | undefined,
    private readonly codec: ContextCodec,
  ) {}

  /** Recovery builds on turns, so it is introduced after both are made. */
  onAbandoned(recover: RecoverAbandoned): void {
    this.recoverAbandoned = recover;
  }

  /** Admits the turn or throws the protocol's error for why not; then nothing was changed. */
  async admit(execution: TurnExecution, preAdmitted?: Admitted): Promise<void> {
    const lease = this.leaseRequest(execution);
    const admitted =
      preAdmitted ?? (execution.subject.followUp ? await this.admitFollowUp(execution, lease) : undefined);
    this.open(execution, lease, admitted);
  }

  /** The lease that a turn asks for. */
  leaseRequest(execution: TurnExecution): LeaseRequest | undefined {
    if (!this.heartbeat) return undefined;
    const { kind, request, callContext } = execution.subject;
    return {
      kind,
      turnId: execution.turnId,
      holder: this.heartbeat.holderId,
      ttlMs: this.heartbeat.times.ttlMs,
      request: request ? JSON.stringify(SendMessageRequest.toJSON(request)) : null,
      context: this.codec.encode(callContext),
    };
  }

  private async admitFollowUp(execution: TurnExecution, lease: LeaseRequest | undefined): Promise<Admitted> {
    const { taskId } = execution;
    const giveUpAt = performance.now() + (this.heartbeat?.times.heartbeatIntervalMs ?? 0);
    for (;;) {
      if (execution.signal.aborted) throw execution.signal.reason;
      const sentAt = performance.now();
      const admission = await this.tryAdmit(execution, lease);
      switch (admission.outcome) {
        case 'admitted':
          return { stored: admission.stored, generation: admission.generation, sentAt };
        case 'unknown':
          throw new TaskNotFoundError(`Task not found: ${taskId}`);
        case 'lost': {
          // The message was accepted; whoever took the turn over brings it to its end, and the sender waits for that.
          const { taskNo, version, task } = admission.stored;
          execution.opened.resolve({ taskNo, version, task });
          execution.ended.resolve({ kind: 'lost', taskNo });
          throw new LeaseLostError(taskId, 'it was admitted, and another replica has claimed or ended it');
        }
        case 'repeated':
          throw new MessageRepeatedError(admission.taskNo);
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
          if (!this.heartbeat) throw busy(taskId);
          if (await this.recoverAbandoned(execution.subject.scope)) break;
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
  private tryAdmit(execution: TurnExecution, lease: LeaseRequest | undefined): Promise<Admission> {
    const { scope, request, receipt, push } = execution.subject;
    const message = request!.message!;
    const options = { turnId: execution.turnId, ...(receipt && { receipt }), ...(push && { push }) };
    const sentAt = performance.now();
    const giveUpAt = this.heartbeat?.deadlineFrom(sentAt) ?? sentAt;
    return untilKnown((again) => this.tasks.admit(scope, message, lease, { ...options, again }), giveUpAt);
  }

  /** Opens the way into the event log and starts to keep the lease alive. */
  private open(execution: TurnExecution, lease: LeaseRequest | undefined, admitted: Admitted | undefined): void {
    const { scope, contextId, request, receipt, push, kind, again } = execution.subject;
    const { heartbeat } = this;
    const hold = (generation: number, sentAt: number): void => {
      execution.lease = heartbeat?.hold(generation, sentAt, execution);
    };
    if (admitted?.generation !== undefined && !admitted.held) hold(admitted.generation, admitted.sentAt);
    // A copy, since the loop folds what follows into its own; the first answer shows the task as it was admitted.
    const firstTask = admitted && copyTask(admitted.stored.task);
    execution.loop = new CommitLoop(
      {
        ...{ scope, contextId, userMessage: request?.message, lease, receipt, push, restart: again?.restart },
        ...(admitted && { admitted }),
      },
      this.tasks,
      this.stream,
      {
        retryMs: execution.retryMs,
        confirm: () => execution.confirmLease(),
        deadline: (firstTriedAt) => execution.lease?.deadline ?? heartbeat?.deadlineFrom(firstTriedAt) ?? Infinity,
        acquired: hold,
        refused: (refusal) => {
          execution.lease?.drop();
          execution.abort(refusal);
        },
      },
      (committed) => onCommitted(execution, committed, admitted?.stored.version ?? 0, firstTask),
    );
    execution.loop.canceling = kind === 'cancel';
    execution.admittedTask = admitted && firstTask && { ...admitted.stored, task: firstTask };
    // A follow-up that was admitted has its answer even if this turn is lost: the task, and what becomes of it elsewhere.
    execution.loop.first.promise.catch((error: unknown) => {
      if (!admitted) execution.opened.reject(error);
      else
        execution.opened.resolve({ taskNo: admitted.stored.taskNo, version: admitted.stored.version, task: firstTask });
    });
    // A claimed lease may have been lost while nobody was there to be told.
    execution.checkDeadline();
  }
}

function onCommitted(
  execution: TurnExecution,
  { taskNo, version, state, ended }: Committed,
  fromVersion: number,
  task: StoredTask['task'] | undefined,
): void {
  execution.opened.resolve({ taskNo, version: fromVersion, task });
  if (ended) {
    execution.lease?.drop();
    execution.ended.resolve({ kind: 'ended', taskNo, version, task: ended });
  } else if (state !== undefined && !isTerminal(state)) execution.onState(state, taskNo);
}

const busy = (taskId: string): Error =>
  new UnsupportedOperationError(`Task ${taskId} is being worked on and takes no message now.`);

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
