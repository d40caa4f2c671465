import { randomUUID } from 'node:crypto';
import { type Message, type SendMessageRequest, type Task, TaskState } from '@a2a-js/sdk';
import type { AgentExecutor, ServerCallContext } from '@a2a-js/sdk/server';
import { Logger } from '@nestjs/common';
import { messageOf } from '../errors/described.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { boundaryOf } from '../effects/boundary.js';
import type { EffectStore, EffectTurn } from '../effects/effect-store.js';
import type { TurnTransactions, TransactionOptions, TransactionWork } from '../effects/turn-transactions.js';
import {
  type EffectCall,
  type EffectContract,
  type EffectHost,
  idempotencyKey,
  TurnEffects,
} from '../effects/turn-effects.js';
import { TaskCanceledError } from '../errors/task-canceled.error.js';
import type { TurnAbortedError } from '../errors/turn-aborted.error.js';
import { TurnUsageError } from '../errors/turn-usage.error.js';
import type { HeldLease, LeaseHolder } from '../leases/heartbeat.js';
import type { TurnKind } from '../leases/lease-store.js';
import type { ArtifactRestart } from '../tasks/artifact-restart.js';
import type { MessageReceipt, PushReceiver, StoredTask, TaskScope } from '../tasks/task-store.js';
import type { CommitLoop } from './commit-loop.js';
import { Deferred } from '../async/deferred.js';
import { handedOut } from '../async/handed-out.js';
import { unlessAborted } from '../async/unless-aborted.js';
import { CancelingTurn } from './canceling-turn.js';
import { noTransactions, refuseFlush, Turn } from './turn.js';

/** How a turn went, for those who wait for it. */
export type TurnEnd =
  /** The agent answered with a message; there is no task to look at, or it was left as it was. */
  | { kind: 'message'; message: Message }
  /** The turn's last event is stored, at this version; `task` is the task as it then stood. */
  | { kind: 'ended'; taskNo: number; version: number; task: Task }
  /** Another replica decides how the task ends. */
  | { kind: 'lost'; taskNo: number | undefined };

/** What a turn is about. */
export interface TurnSubject {
  kind: TurnKind;
  scope: TaskScope;
  contextId: string;
  callContext: ServerCallContext;
  /** The message's request; none in a cancel turn. */
  request: SendMessageRequest | undefined;
  /** By what a repetition of the message is recognised. */
  receipt: MessageReceipt | undefined;
  /** A push receiver that came with the message. */
  push?: PushReceiver | undefined;
  /** A follow-up, to a task that is there. */
  followUp: boolean;
  /** A turn that is run again, and what it begins its artifacts with. */
  again?: { turnId: string; attempt: number; restart: ArtifactRestart };
}

/** A task that a turn may run on, and the lease under which. */
export interface Admitted {
  stored: StoredTask;
  generation: number | undefined;
  /** Monotonic time at which the statement that admitted it was sent. */
  sentAt: number;
  /** The lease, where it is kept alive already. */
  held?: HeldLease;
}

/** What a turn works with besides its own parts. */
export interface TurnServices {
  effects: EffectStore;
  /** None where the leases are kept in another place than the app's database. */
  transactions: TurnTransactions | undefined;
  /** For how long a write of a turn is tried again through trouble with the database, in ms. */
  retryMs: number;
  /** Starts the `cancellation` of a turn. */
  cancel: (execution: TurnExecution) => Promise<void>;
}

/** What the runner of turns has for them. */
export interface RunnerServices extends Omit<TurnServices, 'cancel'> {
  /** Lets go of a lease in favour of whoever claims it. */
  handOver: (generation: number) => Promise<unknown>;
}

/** Everything one running turn consists of. Its executor sees the {@link Turn} part. */
export class TurnExecution extends Turn implements LeaseHolder, EffectHost {
  readonly turnId: string;
  readonly attempt: number;
  readonly taskId: string;
  readonly contextId: string;
  private readonly logger = new Logger('A2AClusterTurn');
  private readonly aborting = new AbortController();
  private readonly effects: TurnEffects;
  /** The turn as `cancelTask` sees it while it runs. */
  readonly cleanUp: CancelingTurn;

  /** Resolves when what the message is about is durable: the follow-up is admitted, or the new task is stored. */
  readonly opened = new Deferred<{ taskNo: number; version: number; task: Task | undefined } | { message: Message }>();
  readonly ended = new Deferred<TurnEnd>();
  /** Resolves when the turn has asked for authentication, which a blocking send does not wait beyond. */
  readonly authRequired = new Deferred<{ taskNo: number }>();
  /** Resolves when the agent has answered with a message, which ends the turn. */
  readonly replied = new Deferred<void>();
  /** Resolves when the executor's own promise has settled, however late. */
  readonly settled = new Deferred<void>();
  /** Resolves when nothing is left to do about the turn; its executor may still run. */
  readonly concluded = new Deferred<void>();
  /** Nothing is left to do about it. */
  isOver = false;
  /** Nobody runs in it any more. */
  readonly over = Promise.all([this.settled.promise, this.concluded.promise]);

  loop: CommitLoop | undefined;
  lease: HeldLease | undefined;
  /** The executor, and the instance of it that this turn uses. */
  executor: AgentExecutor | undefined;
  /** The answer that is a message. */
  reply: Message | undefined;
  /** Why publishing failed on our side: the turn ends FAILED with it whatever the executor does. */
  defect: Error | undefined;
  /** A cancel turn was admitted with the request for it. */
  preAdmitted: Admitted | undefined;
  /** A follow-up's task as it was admitted. */
  admittedTask: StoredTask | undefined;
  /** Ends a turn that takes too long. */
  timer: NodeJS.Timeout | undefined;
  /** Running once the cancel request is known here. Never rejects. */
  cancellation: Promise<void> | undefined;
  /** A last look for a cancel request, which the end of a turn that a shutdown stops waits for. Never rejects. */
  lastLook: Promise<unknown> | undefined;

  constructor(
    readonly subject: TurnSubject,
    private readonly services: TurnServices,
  ) {
    super();
    this.taskId = subject.scope.taskId;
    this.contextId = subject.contextId;
    this.turnId = subject.again?.turnId ?? randomUUID();
    this.attempt = subject.again?.attempt ?? 1;
    this.effects = new TurnEffects(services.effects);
    this.cleanUp = new CancelingTurn(this, this.effects, services.transactions);
  }

  get signal(): AbortSignal {
    return this.aborting.signal;
  }

  get fencingToken(): number | undefined {
    return this.loop?.key?.generation;
  }

  override assertHeld(): void {
    const held = this.isHeld();
    if (this.signal.aborted) throw this.signal.reason;
    // An end that is on its way out stops the signal from aborting, but permits nothing else.
    if (!held) throw this.overdue();
  }

  override flush(): Promise<void> {
    return this.handedOut('flush()', this.flushFor(this));
  }

  /** For itself, or for the cleaning up after it was canceled. Rejects with the reason once that is aborted. */
  async flushFor(host: { readonly signal: AbortSignal }): Promise<void> {
    refuseFlush(this.taskId, boundaryOf(host));
    if (this.loop) await unlessAborted(this.loop.drained(), host.signal);
  }

  /** Tells of a refusal that the executor, whose turn is over, may never hear of. */
  handedOut<T>(call: string, promise: Promise<T>): Promise<T> {
    const refused = promise.catch(async (error: unknown): Promise<never> => {
      await this.learnFrom(error);
      throw error;
    });
    return handedOut(refused, (error) => {
      if (!this.isOver) return;
      this.logger.warn(`turn.${call} on task ${this.taskId} was refused after its turn had ended: ${messageOf(error)}`);
    });
  }

  /** Before the executor hears of a refusal its signal says whether the lease is lost. */
  private async learnFrom(error: unknown): Promise<void> {
    if (error instanceof LeaseLostError && error.taskId === this.taskId) this.giveUp(error);
    else await this.confirmLease();
  }

  /** For how long a write is tried again through trouble with the database, in ms. */
  get retryMs(): number {
    return this.services.retryMs;
  }

  override idempotencyKey(name: string): string {
    return idempotencyKey(this.turnId, name);
  }

  override effect<T>(key: string, contract: EffectContract<T>, run: (call: EffectCall) => Promise<T> | T): Promise<T> {
    return this.handedOut(`effect('${String(key)}')`, this.effects.effect(this, key, contract, run));
  }

  override transaction<T>(work: TransactionWork<T>, options?: TransactionOptions): Promise<T> {
    const { transactions } = this.services;
    const done = transactions?.run(this, work, options) ?? Promise.reject<T>(noTransactions(this.taskId));
    return this.handedOut('transaction()', done);
  }

  /**
   * Lets it begin no more effects, and waits for those under way: what is said of the turn's end is then true of them.
   * Gives up after `timeoutMs`.
   */
  closeEffects(timeoutMs: number): Promise<void> {
    return this.effects.close(timeoutMs);
  }

  /** Whether it has asked for outside actions. */
  get hasEffects(): boolean {
    return this.effects.used;
  }

  /** Monotonic time until which the lease may be relied on. */
  get deadline(): number {
    return this.lease?.deadline ?? Infinity;
  }

  begin(): Promise<EffectTurn> {
    return this.beginFor(this);
  }

  /** For itself, or for the cleaning up after it was canceled. */
  async beginFor(host: Pick<EffectHost, 'signal' | 'assertHeld'>): Promise<EffectTurn> {
    await this.confirmLease();
    host.assertHeld();
    const { loop, taskId, turnId, attempt } = this;
    if (!loop || loop.isSealed) {
      throw new TurnUsageError(taskId, `The turn on task ${taskId} has ended: its effects come before its last event.`);
    }
    loop.begin();
    await unlessAborted(loop.drained(), host.signal);
    await this.confirmLease();
    host.assertHeld();
    const { taskNo, generation } = loop.key!;
    return { taskNo, taskId, turnId, attempt, generation, canceling: loop.canceling };
  }

  canceled(): never {
    this.onCancelRequested();
    throw new TaskCanceledError(this.taskId);
  }

  abort(reason: TurnAbortedError): void {
    if (!this.signal.aborted) this.aborting.abort(reason);
    if (reason.code !== 'TASK_CANCELED') this.cleanUp.stop(reason);
  }

  /** Whether the lease can be relied on now, for a step that cannot wait: one that is overdue is given up. */
  isHeld(): boolean {
    const isLive = this.lease?.isLive() ?? true;
    if (!isLive) this.giveUp(this.overdue());
    return isLive;
  }

  /** For a step that only queues: where the lease is overdue, it is found out what has become of it. */
  checkDeadline(): void {
    if (this.lease?.isLive() === false) void this.confirmLease();
  }

  /** Whether the lease can be relied on, once it is known whether somebody else has claimed it. */
  async confirmLease(): Promise<boolean> {
    const { lease } = this;
    if (!lease || (await lease.confirm())) return true;
    if (this.lease === lease) this.giveUp(this.overdue());
    return false;
  }

  onLost(detail: string): void {
    this.lost(new LeaseLostError(this.taskId, detail));
  }

  private giveUp(why: LeaseLostError): void {
    if (this.loop?.isEnding) return;
    this.lease?.drop();
    this.lost(why);
  }

  private lost(why: LeaseLostError): void {
    // Our own ending commit takes the lease away: only that commit's answer tells.
    if (this.loop?.isEnding) return;
    this.loop?.refuse(why);
    this.abort(why);
  }

  private overdue(): LeaseLostError {
    return new LeaseLostError(this.taskId, 'it could not be renewed in time');
  }

  onState(state: TaskState, taskNo: number): void {
    if (state === TaskState.TASK_STATE_AUTH_REQUIRED) this.authRequired.resolve({ taskNo });
  }

  onCancelRequested(): void {
    if (this.subject.kind === 'message') this.cancellation ??= this.services.cancel(this);
  }
}
