import type { EffectTurn } from '../effects/effect-store.js';
import type { EffectCall, EffectContract, EffectHost } from '../effects/turn-effects.js';
import type { TransactionOptions, TransactionWork } from '../effects/turn-transactions.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { TaskCanceledError } from '../errors/task-canceled.error.js';
import type { TurnAbortedError } from '../errors/turn-aborted.error.js';
import { Turn } from './turn.js';
import type { TurnCalls } from './turn-calls.js';

/** The part of a canceled turn that its clean-up needs. */
export interface CanceledTurn extends Turn {
  readonly turnId: string;
  readonly deadline: number;
  readonly retryMs: number;
  isHeld(): boolean;
  confirmLease(): Promise<boolean>;
}

/**
 * A running turn as `cancelTask` sees it: its own signal has aborted, but there may be something to clean up, and the
 * lease is held for that. This one's signal aborts when the time for it is over or the lease is lost.
 */
export class CancelingTurn extends Turn implements EffectHost {
  private readonly stopping = new AbortController();

  constructor(
    private readonly turn: CanceledTurn,
    private readonly calls: TurnCalls,
  ) {
    super();
  }

  get taskId(): string {
    return this.turn.taskId;
  }

  get contextId(): string {
    return this.turn.contextId;
  }

  get turnId(): string {
    return this.turn.turnId;
  }

  get attempt(): number {
    return this.turn.attempt;
  }

  get fencingToken(): number | undefined {
    return this.turn.fencingToken;
  }

  get deadline(): number {
    return this.turn.deadline;
  }

  get retryMs(): number {
    return this.turn.retryMs;
  }

  get signal(): AbortSignal {
    return this.stopping.signal;
  }

  override assertHeld(): void {
    const held = this.turn.isHeld();
    if (this.signal.aborted) throw this.signal.reason;
    if (!held) throw new LeaseLostError(this.taskId, 'it could not be renewed in time');
  }

  confirmLease(): Promise<boolean> {
    return this.turn.confirmLease();
  }

  override flush(): Promise<void> {
    return this.calls.flush(this);
  }

  override idempotencyKey(name: string): string {
    return this.turn.idempotencyKey(name);
  }

  override effect<T>(key: string, contract: EffectContract<T>, run: (call: EffectCall) => Promise<T> | T): Promise<T> {
    return this.calls.effect(this, key, contract, run);
  }

  override transaction<T>(work: TransactionWork<T>, options?: TransactionOptions): Promise<T> {
    return this.calls.transaction(this, work, options);
  }

  begin(): Promise<EffectTurn> {
    return this.calls.begin(this);
  }

  canceled(): never {
    throw new TaskCanceledError(this.taskId);
  }

  /** The time for it is over, or the lease is lost. */
  stop(reason: TurnAbortedError): void {
    if (!this.signal.aborted) this.stopping.abort(reason);
  }
}
