import { Logger } from '@nestjs/common';
import { messageOf } from '../errors/described.js';
import { racePoint } from '../race-points/race-points.js';
import type { LeaseStore } from './lease-store.js';

/** What the holder of a lease is told. */
export interface LeaseHolder {
  /** The lease is gone, or can no longer be shown to be held. Told at most once. */
  onLost(detail: string): void;
  /** Somebody asked that the task be canceled. May be told more than once. */
  onCancelRequested(): void;
}

/** A lease that this replica keeps alive. */
export interface HeldLease {
  readonly generation: number;
  /** Monotonic time (`performance.now()`) from which on another replica may claim it: this one has stopped before. */
  readonly deadline: number;
  /** Whether the deadline is still ahead. Looked at before each step, since a blocked event loop fires no timers. */
  isLive(): boolean;
  /** From now on somebody else is told what becomes of it. */
  transferTo(holder: LeaseHolder): void;
  /** Renews it no longer. */
  drop(): void;
}

/** The times of a lease, in ms. */
export interface LeaseTimes {
  heartbeatIntervalMs: number;
  ttlMs: number;
}

interface Entry extends HeldLease {
  deadline: number;
  holder: LeaseHolder;
}

/** What part of the TTL is kept as a margin for clocks that drift and steps that take time. */
const MARGIN = 0.1;

/**
 * Renews all leases of this replica, one statement per round, and fences itself: a lease whose renewal was not accepted
 * in time is given up before anybody else may claim it. One failed renewal alone stops nothing.
 */
export class Heartbeat {
  private readonly logger = new Logger('A2AClusterHeartbeat');
  private readonly held = new Map<number, Entry>();
  private roundTimer: NodeJS.Timeout | undefined;
  private deadlineTimer: NodeJS.Timeout | undefined;
  private watchedDeadline = Infinity;
  private running: Promise<boolean> | undefined;
  private stopped = false;

  constructor(
    private readonly leases: LeaseStore,
    /** This replica, unique per boot. */
    readonly holderId: string,
    readonly times: LeaseTimes,
  ) {}

  /**
   * Keeps a lease alive from now on.
   * @param sentAt monotonic time at which the statement that acquired it was sent
   */
  hold(generation: number, sentAt: number, holder: LeaseHolder): HeldLease {
    const entry: Entry = {
      generation,
      holder,
      deadline: this.deadlineFrom(sentAt),
      isLive: () => performance.now() < entry.deadline,
      transferTo: (next) => {
        entry.holder = next;
      },
      drop: () => {
        if (this.held.get(generation) === entry) this.held.delete(generation);
      },
    };
    this.held.set(generation, entry);
    this.watch(entry.deadline);
    return entry;
  }

  /** How long a lease whose renewal or acquisition was sent at this time may be relied on. */
  deadlineFrom(sentAt: number): number {
    return sentAt + this.times.ttlMs * (1 - MARGIN);
  }

  /** Generations held here, for whoever looks after cancel requests between two rounds. */
  get generations(): number[] {
    return [...this.held.keys()];
  }

  start(): void {
    if (!this.roundTimer && !this.stopped) this.schedule(this.times.heartbeatIntervalMs);
  }

  /** One renewal round. False if it failed: the next one then comes early. */
  runOnce(): Promise<boolean> {
    this.running ??= this.round().finally(() => (this.running = undefined));
    return this.running;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.roundTimer);
    clearTimeout(this.deadlineTimer);
    await this.running;
  }

  /** Tells holders what a look at their leases has shown; what was dropped meanwhile is none of their business. */
  report(looked: readonly number[], { cancelRequested, lost }: { cancelRequested: number[]; lost: number[] }): void {
    const [gone, canceled] = [new Set(lost), new Set(cancelRequested)];
    for (const generation of looked) {
      const entry = this.held.get(generation);
      if (entry && gone.has(generation)) this.lose(entry, 'another replica has claimed or ended it');
      else if (entry && canceled.has(generation)) entry.holder.onCancelRequested();
    }
  }

  private schedule(delayMs: number): void {
    this.roundTimer = setTimeout(() => {
      void this.runOnce().then((renewed) => {
        const { heartbeatIntervalMs } = this.times;
        if (!this.stopped) this.schedule(renewed ? heartbeatIntervalMs : heartbeatIntervalMs / 5);
      });
    }, delayMs);
  }

  private async round(): Promise<boolean> {
    const sent = [...this.held.values()];
    if (sent.length === 0) return true;
    const sentAt = performance.now();
    try {
      const generations = sent.map(({ generation }) => generation);
      racePoint('renew.before');
      const renewed = await this.leases.renew(this.holderId, generations, this.times.ttlMs);
      racePoint('renew.after');
      const kept = new Map(renewed.map((lease) => [lease.generation, lease]));
      for (const entry of sent) {
        if (this.held.get(entry.generation) !== entry) continue;
        const lease = kept.get(entry.generation);
        if (!lease) this.lose(entry, 'it was not there to renew');
        else {
          entry.deadline = this.deadlineFrom(sentAt);
          if (lease.cancelRequested) entry.holder.onCancelRequested();
        }
      }
      return true;
    } catch (error) {
      this.logger.warn(`Renewing ${sent.length} leases failed, trying again soon: ${messageOf(error)}`);
      return false;
    }
  }

  /** One timer for the earliest deadline. Renewals only move deadlines back. */
  private watch(deadline: number): void {
    if (this.stopped || (this.deadlineTimer && this.watchedDeadline <= deadline)) return;
    clearTimeout(this.deadlineTimer);
    this.watchedDeadline = deadline;
    this.deadlineTimer = setTimeout(() => this.enforceDeadlines(), Math.max(0, deadline - performance.now()) + 1);
  }

  private enforceDeadlines(): void {
    this.deadlineTimer = undefined;
    let next = Infinity;
    for (const entry of [...this.held.values()]) {
      if (entry.isLive()) next = Math.min(next, entry.deadline);
      else this.lose(entry, 'it could not be renewed in time');
    }
    if (next < Infinity) this.watch(next);
  }

  private lose(entry: Entry, detail: string): void {
    entry.drop();
    entry.deadline = -Infinity;
    entry.holder.onLost(detail);
  }
}
