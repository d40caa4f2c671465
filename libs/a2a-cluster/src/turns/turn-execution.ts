import { randomUUID } from 'node:crypto';
import { type Message, SendMessageRequest, TaskState } from '@a2a-js/sdk';
import { Deferred } from '../async/deferred.js';
import { within } from '../async/late-timer.js';
import type { EffectTurn } from '../effects/effect-store.js';
import { type EffectCall, type EffectContract, type EffectHost, idempotencyKey } from '../effects/turn-effects.js';
import type { TransactionOptions, TransactionWork } from '../effects/turn-transactions.js';
import { detailOf } from '../errors/described.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { ReplicaShutdownError } from '../errors/replica-shutdown.error.js';
import { TaskCanceledError } from '../errors/task-canceled.error.js';
import type { TurnAbortedError } from '../errors/turn-aborted.error.js';
import { TurnTimeoutError } from '../errors/turn-timeout.error.js';
import type { HeldLease, LeaseHolder } from '../leases/heartbeat.js';
import type { LeaseRequest } from '../leases/lease-store.js';
import { racePoint } from '../race-points/race-points.js';
import { copyTask } from '../tasks/task-event.codec.js';
import type { StoredTask } from '../tasks/task-store.js';
import { CancelingTurn } from './canceling-turn.js';
import { CommitLoop } from './commit-loop.js';
import type { Committed, CommittingTurn } from './commit-target.js';
import { canceled } from './status-events.js';
import { Turn } from './turn.js';
import { type CalledTurn, TurnCalls } from './turn-calls.js';
import type { TurnProgress } from './turn-outcome.js';
import { TurnResult } from './turn-result.js';
import type { CancelableExecutor, TurnServices } from './turn-services.js';
import type { Admitted, TurnSubject } from './turn-subject.js';
import { LibraryLogger } from '../logging/library.logger.js';

/**
 * `admitting`: nothing may be published yet. `running`: its executor publishes. `ending`: its executor has come back, was
 * stopped or has answered, and what is missing is stored. `over`: nothing is left to do; its executor may still run.
 * A turn that is refused goes from `admitting` to `over`.
 */
export type TurnPhase = 'admitting' | 'running' | 'ending' | 'over';

/**
 * One turn from its admission to its end. Its executor sees the {@link Turn} part. Nobody else sets its state: others
 * tell it what has happened, and it tells those who wait for it by the promises of {@link TurnProgress}.
 */
export class TurnExecution extends Turn implements LeaseHolder, EffectHost, CalledTurn, TurnProgress {
  readonly turnId: string;
  readonly attempt: number;
  readonly taskId: string;
  readonly contextId: string;
  /** The turn as `cancelTask` sees it while it runs. */
  readonly cleanUp: CancelingTurn;

  private readonly logger = new LibraryLogger('A2AClusterTurn');
  private readonly calls: TurnCalls;
  private readonly result = new TurnResult();
  private readonly aborting = new AbortController();
  private readonly answer = new Deferred<void>();
  private readonly executorBack = new Deferred<void>();
  private readonly conclusion = new Deferred<void>();

  private currentPhase: TurnPhase = 'admitting';
  private commits: CommitLoop | undefined;
  private held: HeldLease | undefined;
  private taskAsAdmitted: StoredTask | undefined;
  private executor: CancelableExecutor | undefined;
  private message: Message | undefined;
  private publishingError: Error | undefined;
  private canceling: Promise<void> | undefined;
  private cancelLook: Promise<unknown> | undefined;
  private durationTimer: NodeJS.Timeout | undefined;
  private silenceTimer: NodeJS.Timeout | undefined;

  readonly opened = this.result.opened;
  readonly authRequired = this.result.authRequired;
  readonly outcome = this.result.outcome;
  /** Resolves when the agent has answered with a message, which ends the turn. */
  readonly answered = this.answer.promise;
  /** Resolves when nobody runs in it any more: it is over, and its executor's own promise has settled, however late. */
  readonly left: Promise<unknown> = Promise.all([this.executorBack.promise, this.conclusion.promise]);

  constructor(
    readonly subject: TurnSubject,
    private readonly services: TurnServices,
  ) {
    super();
    this.taskId = subject.scope.taskId;
    this.contextId = subject.contextId;
    this.turnId = subject.again?.turnId ?? randomUUID();
    this.attempt = subject.again?.attempt ?? 1;
    this.calls = new TurnCalls(this, services.effects, services.transactions);
    this.cleanUp = new CancelingTurn(this, this.calls);
  }

  // Questions about it.

  get phase(): TurnPhase {
    return this.currentPhase;
  }

  get isOver(): boolean {
    return this.currentPhase === 'over';
  }

  /** Its way into the event log; none before it is admitted. */
  get loop(): CommitLoop | undefined {
    return this.commits;
  }

  /** The lease that it holds or has held; none before there is one, and where leases are off. */
  get lease(): HeldLease | undefined {
    return this.held;
  }

  /** The task as it was admitted; none where the turn begins it. */
  get admittedTask(): StoredTask | undefined {
    return this.taskAsAdmitted;
  }

  get reply(): Message | undefined {
    return this.message;
  }

  get published(): TaskState | undefined {
    return this.commits?.published;
  }

  get version(): number {
    return this.commits?.key?.version ?? 0;
  }

  /** Why publishing failed on our side: the turn ends FAILED with it whatever the executor does. */
  get defect(): Error | undefined {
    return this.publishingError;
  }

  /** Under way once it is known here that the task is to be canceled. Never rejects. */
  get cancellation(): Promise<void> | undefined {
    return this.canceling;
  }

  /** A last look for a cancel request, which the end of a turn that a shutdown stops waits for. Never rejects. */
  get lastLook(): Promise<unknown> | undefined {
    return this.cancelLook;
  }

  /** Whether it has asked for outside actions. */
  get hasEffects(): boolean {
    return this.calls.hasEffects;
  }

  /** For how long a write is tried again through trouble with the database, in ms. */
  get retryMs(): number {
    return this.services.heartbeat.times.ttlMs;
  }

  /** The lease that it asks for; none where leases are off. */
  leaseRequest(): LeaseRequest | undefined {
    const { heartbeat, contextCodec } = this.services;
    if (!heartbeat.isOn) return undefined;
    const { kind, request, callContext } = this.subject;
    return {
      kind,
      turnId: this.turnId,
      holder: heartbeat.holderId,
      ttlMs: heartbeat.times.ttlMs,
      request: request ? JSON.stringify(SendMessageRequest.toJSON(request)) : null,
      context: contextCodec.encode(callContext),
    };
  }

  // Its steps, in order.

  /** I6: an executor that never settles, or is never made, is stopped all the same. */
  endsWithin(maxTurnDurationMs: number): void {
    if (!Number.isFinite(maxTurnDurationMs)) return;
    this.durationTimer = setTimeout(
      () => this.abort(new TurnTimeoutError(this.taskId, maxTurnDurationMs)),
      maxTurnDurationMs,
    );
  }

  /** A lease that is kept alive already is this turn's from here on, whatever comes before its executor. */
  leaseTransferred(held: HeldLease): void {
    held.transferTo(this);
    this.held = held;
  }

  executorMade(executor: CancelableExecutor): void {
    this.executor = executor;
  }

  /** It may run. What it publishes becomes a new task, and its first commit brings this lease. */
  admittedToNewTask(lease: LeaseRequest | undefined): void {
    this.openLog(lease, undefined);
    this.answersAfterSilence();
  }

  /** It may run on this task, under this lease. */
  admittedTo(admitted: Admitted): void {
    const { stored, generation, sentAt, held } = admitted;
    if (generation !== undefined && !held) this.holdLease(generation, sentAt);
    // A copy, since the commit loop folds what follows into its own: the first answer shows the task as it was admitted.
    this.taskAsAdmitted = { ...stored, task: copyTask(stored.task) };
    this.openLog(undefined, admitted);
    this.answersAfterSilence();
  }

  /** Its message was accepted. By the time its answer came another replica had taken the turn over, and ends it. */
  lostAtAdmission(stored: StoredTask): void {
    this.result.openedTask(stored);
    this.result.settle({ kind: 'lost', taskNo: stored.taskNo });
  }

  /** Its message was accepted before, for this task. */
  messageRepeated(taskNo: number): void {
    this.result.settle({ kind: 'repeated', taskNo });
  }

  /** The agent has answered with a message. */
  answeredWith(message: Message): void {
    this.message = message;
    this.answer.resolve();
  }

  /** An event could not be published, for a reason on our side. */
  publishingFailed(defect: Error): void {
    this.publishingError = defect;
  }

  /** The executor's own promise has settled. */
  executorSettled(): void {
    this.executorBack.resolve();
  }

  onCancelRequested(): void {
    if (this.subject.kind === 'message') this.canceling ??= this.cancel();
  }

  onLost(detail: string): void {
    this.loseLease(new LeaseLostError(this.taskId, detail));
  }

  /** The replica shuts down. The turn's end waits for `lastLook`, which looks for cancel requests once more. */
  shutDown(lastLook: Promise<unknown>): void {
    this.cancelLook = lastLook;
    this.abort(new ReplicaShutdownError(this.taskId));
  }

  /** Stops the executor: its signal aborts. A cancel leaves it the time to clean up; all else stops that too. */
  abort(reason: TurnAbortedError): void {
    if (!this.signal.aborted) this.aborting.abort(reason);
    if (reason.code !== 'A2A_TASK_CANCELED') this.cleanUp.stop(reason);
  }

  /** Its executor has come back, was stopped or has answered: what is missing for its end follows. */
  concludes(): void {
    this.currentPhase = 'ending';
    clearTimeout(this.durationTimer);
    clearTimeout(this.silenceTimer);
  }

  /**
   * Lets it begin no more effects, and waits for those under way, for `timeoutMs` at most: its end then speaks true of
   * them.
   */
  closeEffects(timeoutMs: number): Promise<void> {
    return this.calls.closeEffects(timeoutMs);
  }

  /** The lease is let go of, or gone: it is renewed no longer. */
  stopRenewing(): void {
    this.held?.drop();
  }

  /** The lease was released without an event: the answer was a message, or the task waits on. */
  released(): void {
    const key = this.commits?.key;
    const task = this.commits?.current;
    if (this.message) this.result.settle({ kind: 'message', message: this.message });
    else if (key && task) this.result.settle({ kind: 'ended', taskNo: key.taskNo, version: key.version, task });
  }

  /** The lease was handed over: the turn goes on at another replica. */
  handedOver(taskNo: number): void {
    if (this.taskAsAdmitted) this.result.openedTask(this.taskAsAdmitted);
    this.result.settle({ kind: 'lost', taskNo });
  }

  /** Its end could not be stored: another replica decides how the task ends, if there is one. */
  lost(why: LeaseLostError): void {
    this.commits?.refuse(why);
    this.abort(why);
    const taskNo = this.commits?.key?.taskNo;
    this.result.settle(taskNo === undefined ? { kind: 'refused', error: why } : { kind: 'lost', taskNo });
  }

  /** It was not admitted, or what runs it has failed. What it may still have under way takes no lease any more. */
  brokeOff(error: unknown, cause: unknown): void {
    this.result.settle({ kind: 'refused', error });
    this.commits?.refuse(new LeaseLostError(this.taskId, 'the turn broke off', { cause }));
  }

  /** Nothing is left to do about it; its executor may still run. */
  closed(): void {
    this.currentPhase = 'over';
    clearTimeout(this.durationTimer);
    clearTimeout(this.silenceTimer);
    this.stopRenewing();
    this.conclusion.resolve();
  }

  // Its way into the event log.

  private openLog(lease: LeaseRequest | undefined, admitted: Admitted | undefined): void {
    const { scope, contextId, request, receipt, push, again, kind } = this.subject;
    const target = {
      scope,
      contextId,
      userMessage: request?.message,
      lease,
      receipt,
      push,
      restart: again?.restart,
      canceling: kind === 'cancel',
      ...(admitted && { admitted }),
    };
    this.commits = new CommitLoop(target, this.services.tasks, this.services.stream, this.committing());
    this.currentPhase = 'running';
    // A claimed lease may have been lost while nobody was there to be told.
    this.checkDeadline();
  }

  /**
   * A sender hears something whatever the agent does. A new task is stored, with its message and its lease; a follow-up's
   * message is stored already.
   */
  private answersAfterSilence(): void {
    const { firstEventMs } = this.services;
    if (this.subject.kind === 'cancel' || !Number.isFinite(firstEventMs)) return;
    this.silenceTimer = setTimeout(() => {
      if (this.taskAsAdmitted) this.result.openedTask(this.taskAsAdmitted);
      else this.commits?.begin();
    }, firstEventMs);
  }

  private committing(): CommittingTurn {
    const { heartbeat } = this.services;
    return {
      retryMs: this.retryMs,
      deadline: (firstTriedAt) => this.held?.deadline ?? heartbeat.deadlineFrom(firstTriedAt),
      confirmLease: () => this.confirmLease(),
      leaseAcquired: (generation, sentAt) => this.holdLease(generation, sentAt),
      committed: (committed) => this.committed(committed),
      messageRepeated: (taskNo) => this.messageRepeated(taskNo),
      eventsRefused: (refusal) => this.eventsRefused(refusal),
    };
  }

  private holdLease(generation: number, sentAt: number): void {
    this.held = this.services.heartbeat.hold(generation, sentAt, this);
  }

  private committed({ taskNo, version, state, ended }: Committed): void {
    clearTimeout(this.silenceTimer);
    if (this.taskAsAdmitted) this.result.openedTask(this.taskAsAdmitted);
    else this.result.openedNewTask(taskNo);
    if (ended) {
      this.stopRenewing();
      this.result.settle({ kind: 'ended', taskNo, version, task: ended });
    } else if (state === TaskState.TASK_STATE_AUTH_REQUIRED) {
      this.result.authenticationWanted(taskNo);
    }
  }

  private eventsRefused(refusal: LeaseLostError): void {
    this.stopRenewing();
    this.abort(refusal);
    // A follow-up that was admitted has its answer all the same: the task, and what becomes of it elsewhere.
    if (this.taskAsAdmitted) this.result.openedTask(this.taskAsAdmitted);
    else this.result.notOpened(refusal);
  }

  // Its lease.

  /** Monotonic time until which the lease may be relied on. */
  get deadline(): number {
    return this.held?.deadline ?? Infinity;
  }

  /** Whether the lease can be relied on now, for a step that cannot wait: one that is overdue is given up. */
  isHeld(): boolean {
    const isLive = this.held?.isLive() ?? true;
    if (!isLive) this.giveUpLease(this.overdue());
    return isLive;
  }

  /** For a step that only queues: if the lease is overdue, this asks for it in the background. */
  checkDeadline(): void {
    if (this.held?.isLive() === false) void this.confirmLease();
  }

  /** Whether the lease can be relied on, once it is known whether somebody else has claimed it. */
  async confirmLease(): Promise<boolean> {
    const { held } = this;
    if (!held || (await held.confirm())) return true;
    if (this.held === held) this.giveUpLease(this.overdue());
    return false;
  }

  /** It is no longer held, or can no longer be shown to be. */
  giveUpLease(why: LeaseLostError): void {
    if (this.commits?.isEnding) return;
    this.stopRenewing();
    this.loseLease(why);
  }

  private loseLease(why: LeaseLostError): void {
    // Our own ending commit takes the lease away: only that commit's answer tells.
    if (this.commits?.isEnding) return;
    this.commits?.refuse(why);
    this.abort(why);
  }

  private overdue(): LeaseLostError {
    return new LeaseLostError(this.taskId, 'it could not be renewed in time');
  }

  // Its cancel.

  private async cancel(): Promise<void> {
    try {
      await this.tellCanceled();
    } catch (error) {
      this.logger.error(`Canceling task ${this.taskId} failed half way: ${detailOf(error)}`);
    }
  }

  /** The holder's side of a cancel: tell the executor, give it a while, and write CANCELED if nobody else did. */
  private async tellCanceled(): Promise<void> {
    const { commits, executor } = this;
    racePoint('cancel-heard.before');
    commits?.cancel();
    this.abort(new TaskCanceledError(this.taskId));
    // Its executor is still being made: there is nobody to tell.
    if (!commits || !executor) return;
    const cleanedUp = Promise.all([executor.cancel(), this.executorBack.promise]);
    await within(this.services.cancelTimeoutMs, Promise.race([cleanedUp, commits.sealed.promise]));
    racePoint('cancel-heard.after');
    commits.add(canceled(this));
    this.cleanUp.stop(new TaskCanceledError(this.taskId));
  }

  // The turn as its executor sees it.

  get signal(): AbortSignal {
    return this.aborting.signal;
  }

  get fencingToken(): number | undefined {
    return this.commits?.key?.generation;
  }

  override assertHeld(): void {
    const held = this.isHeld();
    if (this.signal.aborted) throw this.signal.reason;
    // An end that is on its way out stops the signal from aborting, but permits nothing else.
    if (!held) throw this.overdue();
  }

  override flush(): Promise<void> {
    return this.calls.flush(this);
  }

  override idempotencyKey(name: string): string {
    return idempotencyKey(this.turnId, name);
  }

  override effect<T>(key: string, contract: EffectContract<T>, run: (call: EffectCall) => Promise<T> | T): Promise<T> {
    return this.calls.effect(this, key, contract, run);
  }

  override transaction<T>(work: TransactionWork<T>, options?: TransactionOptions): Promise<T> {
    return this.calls.transaction(this, work, options);
  }

  // The turn as its effects and transactions see it.

  begin(): Promise<EffectTurn> {
    return this.calls.begin(this);
  }

  canceled(): never {
    this.onCancelRequested();
    throw new TaskCanceledError(this.taskId);
  }
}
