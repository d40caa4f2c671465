import { Injectable } from '@nestjs/common';
import { within } from '../async/late-timer.js';
import { ReplicaDrainingError } from '../errors/replica-draining.error.js';
import type { TurnExecution } from './turn-execution.js';

/** The turns that run on this replica. */
@Injectable()
export class RunningTurns {
  private readonly running = new Set<TurnExecution>();
  private readonly waiting = new Set<() => void>();
  private draining = false;

  get isDraining(): boolean {
    return this.draining;
  }

  get size(): number {
    return this.running.size;
  }

  /** Throws {@link ReplicaDrainingError} once the replica shuts down. */
  assertOpen(): void {
    if (this.draining) throw new ReplicaDrainingError();
  }

  add(turn: TurnExecution): void {
    this.running.add(turn);
  }

  delete(turn: TurnExecution): void {
    this.running.delete(turn);
    if (this.running.size > 0) return;
    for (const resolve of this.waiting) resolve();
    this.waiting.clear();
  }

  [Symbol.iterator](): IterableIterator<TurnExecution> {
    return this.running.values();
  }

  /** Takes no more turns. */
  close(): void {
    this.draining = true;
  }

  /** Waits until none runs, or until `timeoutMs` have passed. True if none runs. */
  async idle(timeoutMs: number): Promise<boolean> {
    if (this.running.size === 0) return true;
    await within(timeoutMs, new Promise<void>((resolve) => this.waiting.add(resolve)));
    return this.running.size === 0;
  }
}
