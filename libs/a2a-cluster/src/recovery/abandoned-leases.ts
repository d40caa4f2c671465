import { Injectable } from '@nestjs/common';
import { Heartbeat, type HeldLease, type LeaseHolder } from '../leases/heartbeat.js';
import { type ClaimedLease, LeaseStore } from '../leases/lease-store.js';
import { racePoint } from '../race-points/race-points.js';
import type { TaskScope } from '../tasks/task-scope.js';
import { RunningTurns } from '../turns/running-turns.js';
import { type RecoverySlot, RecoverySlots } from './recovery-slots.js';
import { ResolvedOptions } from '../options/cluster.options.js';

/** A recovery has nothing to stop: what it writes is fenced, and a cancel asked for meanwhile finds the task ended. */
const STOPS_NOTHING: LeaseHolder = { onLost: () => undefined, onCancelRequested: () => undefined };

/** A lease as it was claimed for recovery: kept alive, and with the right to run its turn where there is one. */
export interface Claim {
  claimed: ClaimedLease;
  held: HeldLease;
  /** Monotonic time at which the claim was sent. */
  sentAt: number;
  slot: RecoverySlot | undefined;
}

/**
 * Claims the leases of turns whose replica is gone, and puts back what is to be recovered later. Without leases it
 * claims nothing.
 */
@Injectable()
export class AbandonedLeases {
  private readonly slots: RecoverySlots;
  /** Monotonic times at which turns that were postponed here can be claimed. */
  private due: number[] = [];
  /** Whether turns may be waiting for a slot. */
  private starved = false;
  private dueListener: () => void = () => undefined;

  constructor(
    private readonly leases: LeaseStore,
    private readonly heartbeat: Heartbeat,
    private readonly running: RunningTurns,
    private readonly options: ResolvedOptions,
  ) {
    const { maxConcurrentRecoveries } = options.sweeper;
    this.slots = new RecoverySlots(maxConcurrentRecoveries);
  }

  /** Whether this replica recovers anything: leases are on. */
  get isOn(): boolean {
    return this.heartbeat.isOn;
  }

  /** Whether turns may be run again at all: then a lease is claimed only with a slot for it, or to end its turn. */
  get reExecutes(): boolean {
    return this.options.sweeper.policy !== 'fail';
  }

  /** How long a lease holds without a renewal, in ms. */
  get ttlMs(): number {
    return this.heartbeat.times.ttlMs;
  }

  /** Monotonic time at which the next turn that was postponed here can be claimed. */
  get nextDueAt(): number {
    return this.due.reduce((earliest, at) => Math.min(earliest, at), Infinity);
  }

  /** Registers for whenever `nextDueAt` may have come nearer. */
  onDue(listener: () => void): void {
    this.dueListener = listener;
  }

  /** The sweep that begins looks for the postponed turns that are due. */
  sweepBegins(): void {
    this.starved = false;
    const now = performance.now();
    this.due = this.due.filter((at) => at > now);
  }

  /** Slots for claims; none while the replica shuts down. */
  takeSlots(wanted: number): RecoverySlot[] {
    if (!this.isOn || !this.reExecutes || this.running.isDraining) return [];
    const slots = this.slots.take(wanted);
    this.starved ||= slots.length === 0;
    return slots;
  }

  /** A turn that was run again has ended: another one may take its slot. */
  freeSlot(slot: RecoverySlot): void {
    slot.release();
    if (this.starved) this.isDue(performance.now());
  }

  /** Claims expired leases: one for each slot, or without slots only those whose turns are not run again. */
  async claim(
    limit: number,
    slots: RecoverySlot[],
    { scope, waits = false }: { scope?: TaskScope; waits?: boolean } = {},
  ): Promise<Claim[]> {
    if (!this.isOn) return [];
    const sentAt = performance.now();
    const ending = this.reExecutes && slots.length === 0 && !waits;
    let claimed: ClaimedLease[] = [];
    try {
      racePoint(scope ? 'claim-on-demand.before' : 'sweep-claim.before');
      claimed = await this.leases.claim({
        holder: this.heartbeat.holderId,
        ttlMs: this.ttlMs,
        limit: slots.length > 0 ? Math.min(limit, slots.length) : limit,
        ...(scope && { scope }),
        ...(ending && { endingAfterAttempts: this.options.sweeper.maxAttempts }),
        // A turn that is not run again is claimed without its request, which may be large.
        withRequest: slots.length > 0,
      });
      // Sweeps that find nothing are many, and leave nothing.
      if (claimed.length > 0) racePoint(scope ? 'claim-on-demand.after' : 'sweep-claim.after');
    } finally {
      for (const slot of slots.slice(claimed.length)) slot.release();
    }
    // Kept alive from the claim on, however long a turn has to wait for the others of its batch.
    return claimed.map((lease, at) => {
      const held = this.heartbeat.hold(lease.generation, sentAt, STOPS_NOTHING);
      return { claimed: lease, held, sentAt, slot: slots[at] };
    });
  }

  /** Gives a claimed turn back untouched: this replica shuts down. */
  async giveBack({ claimed, held, slot }: Claim): Promise<void> {
    await this.putBack(claimed, 0).catch(() => undefined);
    held.drop();
    slot?.release();
  }

  /** Puts a lease back as it was found, to be claimed in `afterMs`. False where somebody else has it. */
  async putBack(claimed: ClaimedLease, afterMs: number): Promise<boolean> {
    racePoint('put-back.before');
    const done = await this.leases.putBack(claimed, afterMs);
    racePoint('put-back.after');
    return done;
  }

  /** Lets go of a lease whose turn is run again in `afterMs`, by any replica. False where somebody else has it. */
  async postpone({ generation }: ClaimedLease, afterMs: number): Promise<boolean> {
    racePoint('postpone.before');
    if (!(await this.leases.handOver(generation, afterMs))) return false;
    racePoint('postpone.after');
    this.isDue(performance.now() + afterMs);
    return true;
  }

  /** Drops the lease of a turn that left nothing to recover. */
  async drop({ generation }: ClaimedLease): Promise<void> {
    racePoint('recovery-drop.before');
    await this.leases.release(generation);
    racePoint('recovery-drop.after');
  }

  private isDue(at: number): void {
    this.due.push(at);
    this.dueListener();
  }
}
