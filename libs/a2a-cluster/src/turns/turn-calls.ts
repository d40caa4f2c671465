import { handedOut } from '../async/handed-out.js';
import { unlessAborted } from '../async/unless-aborted.js';
import { boundaryOf } from '../effects/boundary.js';
import type { EffectStore, EffectTurn } from '../effects/effect-store.js';
import { type EffectCall, type EffectContract, type EffectHost, TurnEffects } from '../effects/turn-effects.js';
import type { TransactionOptions, TransactionWork, TurnTransactions } from '../effects/turn-transactions.js';
import { messageOf } from '../errors/described.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { TurnUsageError } from '../errors/turn-usage.error.js';
import type { CommitLoop } from './commit-loop.js';
import { refuseFlush } from './turn.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** A turn as the calls of its executor need it. */
export interface CalledTurn {
  readonly taskId: string;
  readonly turnId: string;
  readonly attempt: number;
  /** None before the turn is admitted. */
  readonly loop: CommitLoop | undefined;
  readonly isOver: boolean;
  confirmLease(): Promise<boolean>;
  /** The lease is no longer held, or can no longer be shown to be. */
  giveUpLease(why: LeaseLostError): void;
}

/**
 * The asynchronous calls of an executor on its turn. The host of a call is the turn as the executor runs in it, or
 * as `cancelTask` cleans up in it: each has a signal of its own.
 */
export class TurnCalls {
  private readonly logger = new LibraryLogger('A2AClusterTurn');
  private readonly effects: TurnEffects;

  constructor(
    private readonly turn: CalledTurn,
    effects: EffectStore,
    private readonly transactions: TurnTransactions,
  ) {
    this.effects = new TurnEffects(effects);
  }

  /** Whether outside actions were asked for. */
  get hasEffects(): boolean {
    return this.effects.used;
  }

  /** Lets no more effects begin, and waits for those under way, for `timeoutMs` at most. */
  closeEffects(timeoutMs: number): Promise<void> {
    return this.effects.close(timeoutMs);
  }

  flush(host: EffectHost): Promise<void> {
    return this.handedOut('flush()', this.drained(host));
  }

  effect<T>(
    host: EffectHost,
    key: string,
    contract: EffectContract<T>,
    run: (call: EffectCall) => Promise<T> | T,
  ): Promise<T> {
    return this.handedOut(`effect('${String(key)}')`, this.effects.effect(host, key, contract, run));
  }

  transaction<T>(host: EffectHost, work: TransactionWork<T>, options?: TransactionOptions): Promise<T> {
    return this.handedOut('transaction()', this.transactions.run(host, work, options));
  }

  /** Makes sure that the task and the lease exist and that all that was published is stored. */
  async begin(host: EffectHost): Promise<EffectTurn> {
    const { turn } = this;
    await turn.confirmLease();
    host.assertHeld();
    const { loop, taskId, turnId, attempt } = turn;
    if (!loop || loop.isSealed) {
      throw new TurnUsageError(taskId, `The turn on task ${taskId} has ended: its effects come before its last event.`);
    }
    loop.begin();
    await unlessAborted(loop.drained(), host.signal);
    await turn.confirmLease();
    host.assertHeld();
    const { taskNo, generation } = loop.key!;
    return { taskNo, taskId, turnId, attempt, generation, canceling: loop.isCanceling };
  }

  /** Rejects with the reason once the host's signal aborts. */
  private async drained(host: EffectHost): Promise<void> {
    const { taskId, loop } = this.turn;
    refuseFlush(taskId, boundaryOf(host));
    if (loop) await unlessAborted(loop.drained(), host.signal);
  }

  /** Logs a refusal that the executor, whose turn is over, may never hear of. */
  private handedOut<T>(call: string, promise: Promise<T>): Promise<T> {
    const refused = promise.catch(async (error: unknown): Promise<never> => {
      await this.learnFrom(error);
      throw error;
    });
    return handedOut(refused, (error) => {
      const { isOver, taskId } = this.turn;
      if (!isOver) return;
      this.logger.warn(`turn.${call} on task ${taskId} was refused after its turn had ended: ${messageOf(error)}`);
    });
  }

  /** Before the executor hears of a refusal its signal says whether the lease is lost. */
  private async learnFrom(error: unknown): Promise<void> {
    if (error instanceof LeaseLostError && error.taskId === this.turn.taskId) this.turn.giveUpLease(error);
    else await this.turn.confirmLease();
  }
}
