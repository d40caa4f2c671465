import { Injectable } from '@nestjs/common';
import { isLate, socketsRead, within } from '../async/late-timer.js';
import { pause } from '../async/pause.js';
import { messageOf } from '../errors/described.js';
import { racePoint } from '../race-points/race-points.js';
import { LeaseStore, type RenewedLease } from './lease-store.js';
import { type LeaseTimes, TIMES_WITHOUT_LEASES } from '../options/lease.options.js';
import { TTL_MARGIN, RenewalPace } from './renewal-pace.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { newReplicaId } from './replica-id.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** Hears about its lease. */
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
  /**
   * The same for a step that can wait: before the answer is no, what lies in the sockets is read, which may be the answer of
   * a renewal, and after a pause of this process one more renewal is asked for. What it accepts nobody has claimed.
   */
  confirm(): Promise<boolean>;
  /** From now on somebody else is told what becomes of it. */
  transferTo(holder: LeaseHolder): void;
  /** Renews it no longer. */
  drop(): void;
}

interface Entry extends HeldLease {
  deadline: number;
  holder: LeaseHolder;
}

/** A renewal that has no answer yet. */
interface Try {
  sentAt: number;
  /** The leases that were held when it was sent. */
  entries: Entry[];
  /** Ends the wait for it. */
  timer?: NodeJS.Timeout;
}

/** As many renewals are waited for at once: one, and what is tried beside it while it has no answer. */
const MAX_TRIES = 3;

/** How long a process that stood still asks whether it has its leases yet, in ms. */
const ASK_MS = 1_000;

/** The pause after a question that failed, in ms. */
const ASK_AGAIN_MS = 50;

/** How long a stop waits for renewals under way, in ms: nobody needs them any more. */
const STOP_MS = 1_000;

/**
 * Renews all leases of this replica together, and fences itself: a lease whose renewal was not accepted in time is given up
 * before anybody else may claim it.
 *
 * A renewal may take as long as the first deadline of what it renews allows. While it has no answer others are sent beside
 * it, which may find another way: each that is accepted counts, from when it was sent, whichever comes first.
 */
@Injectable()
export class Heartbeat {
  /** Whether turns hold leases. Without leases it holds and renews nothing. */
  readonly isOn: boolean;
  readonly times: LeaseTimes;
  /** This replica, unique per boot. */
  readonly holderId = newReplicaId();

  private readonly logger = new LibraryLogger('A2AClusterHeartbeat');
  private readonly pace: RenewalPace;
  private readonly held = new Map<number, Entry>();
  private readonly tries = new Set<Try>();
  private roundTimer: NodeJS.Timeout | undefined;
  /** Monotonic time of the next renewal. */
  private nextAt = Infinity;
  private deadlineTimer: NodeJS.Timeout | undefined;
  private watchedDeadline = Infinity;
  /** Monotonic time at which this process went on, after it had stood still. */
  private wentOnAt = -Infinity;
  private running: Promise<boolean> | undefined;
  /** The question under way whether the leases are still held. */
  private asking: Promise<void> | undefined;
  private started = false;
  private stopped = false;
  /** Whether the store knows of this replica: before it holds anything. */
  private registered = false;
  /** Monotonic time from which on a failure is worth another line in the log. */
  private warnAt = -Infinity;
  /** Called once no renewal is under way. */
  private onIdle: () => void = () => undefined;

  constructor(
    private readonly leases: LeaseStore,
    options: ResolvedOptions,
  ) {
    this.isOn = options.leases !== false;
    this.times = options.leases || TIMES_WITHOUT_LEASES;
    this.pace = new RenewalPace(this.times);
  }

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
      confirm: async () => {
        if (!entry.isLive()) await socketsRead();
        if (!entry.isLive() && this.held.get(generation) === entry) await this.askOnce();
        return entry.isLive();
      },
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

  /** How long a lease whose renewal or acquisition was sent at this time may be relied on; without leases for ever. */
  deadlineFrom(sentAt: number): number {
    if (!this.isOn) return Infinity;
    return sentAt + this.times.ttlMs * (1 - TTL_MARGIN);
  }

  /** Generations held here, for whoever looks after cancel requests between two rounds. */
  get generations(): number[] {
    return [...this.held.keys()];
  }

  /** Tells the store that this replica is there, and renews what it holds from now on. */
  start(): void {
    if (!this.isOn || this.started || this.stopped) return;
    this.started = true;
    this.renewAt(performance.now());
  }

  /** One renewal now. False if it failed: the next one then comes early. */
  runOnce(): Promise<boolean> {
    if (this.held.size === 0) return Promise.resolve(true);
    this.running ??= this.renew().finally(() => (this.running = undefined));
    return this.running;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.roundTimer);
    clearTimeout(this.deadlineTimer);
    if (this.tries.size === 0) return;
    await within(STOP_MS, new Promise<void>((resolve) => (this.onIdle = resolve)));
    for (const left of this.tries) clearTimeout(left.timer);
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

  /** Sets the next renewal. */
  private renewAt(at: number): void {
    if (!this.started || this.stopped) return;
    clearTimeout(this.roundTimer);
    this.nextAt = at;
    this.roundTimer = setTimeout(() => this.round(), Math.max(0, Math.ceil(at - performance.now())));
  }

  private round(): void {
    this.noteStandstill(this.nextAt);
    const wanted = this.held.size > 0 || !this.registered;
    // With as many under way as there may be, the next one goes out as soon as one of them has failed.
    if (wanted && this.tries.size >= MAX_TRIES) return;
    this.renewAt(performance.now() + (wanted ? this.pace.secondTryAfterMs : this.pace.everyMs));
    if (wanted) void this.renew();
  }

  /** Sends a renewal of what is held, and does what its answer says. False if it failed. */
  private async renew(): Promise<boolean> {
    const sentAt = performance.now();
    const sent: Try = { sentAt, entries: [...this.held.values()] };
    const timeoutMs = this.timeoutOf(sent);
    this.tries.add(sent);
    // A store that does not keep to the time that it is given holds up nothing.
    sent.timer = setTimeout(() => this.failed(sent, `no answer within ${timeoutMs} ms`), timeoutMs + 1);
    try {
      const generations = sent.entries.map(({ generation }) => generation);
      if (generations.length > 0) racePoint('renew.before');
      const renewed = await this.leases.renew(this.holderId, generations, this.times.ttlMs, timeoutMs);
      if (generations.length > 0) racePoint('renew.after');
      this.registered = true;
      this.accepted(sent, renewed);
      this.finish(sent);
      this.warnAt = -Infinity;
      this.renewAt(sentAt + this.pace.everyMs);
      return true;
    } catch (error) {
      this.failed(sent, messageOf(error));
      return false;
    }
  }

  /**
   * The first one may take what its leases' deadlines leave; those beside it are there to try another way, and go soon.
   */
  private timeoutOf({ sentAt, entries }: Try): number {
    const deadline = entries.reduce((first, entry) => Math.min(first, entry.deadline), this.deadlineFrom(sentAt));
    const leftMs = Math.max(deadline - sentAt, this.pace.secondTryTimeoutMs);
    return Math.ceil(this.tries.size === 0 ? leftMs : this.pace.secondTryTimeoutMs);
  }

  private accepted({ sentAt, entries }: Try, renewed: RenewedLease[] | undefined): void {
    const kept = renewed && new Map(renewed.map((lease) => [lease.generation, lease]));
    for (const entry of entries) {
      if (this.held.get(entry.generation) !== entry) continue;
      const lease = kept?.get(entry.generation);
      if (kept && !lease) this.lose(entry, 'it was not there to renew');
      // Unseen, it may have been claimed once its deadline had passed.
      else if (lease || entry.isLive()) {
        entry.deadline = Math.max(entry.deadline, this.deadlineFrom(sentAt));
        if (lease?.cancelRequested) entry.holder.onCancelRequested();
      }
    }
  }

  private failed(sent: Try, why: string): void {
    if (!this.tries.has(sent)) return;
    this.finish(sent);
    const now = performance.now();
    if (now >= this.warnAt && !this.stopped) {
      const what = sent.entries.length === 0 ? 'Registering this replica' : `Renewing ${sent.entries.length} leases`;
      this.logger.warn(`${what} failed, trying again soon: ${why}`);
      this.warnAt = now + this.times.heartbeatIntervalMs;
    }
    this.renewAt(Math.min(Math.max(this.nextAt, now), now + this.pace.retryMs()));
  }

  private finish(sent: Try): void {
    this.tries.delete(sent);
    clearTimeout(sent.timer);
    if (this.tries.size === 0) this.onIdle();
  }

  /** One timer for the earliest deadline. Renewals only move deadlines back. */
  private watch(deadline: number): void {
    if (this.stopped || (this.deadlineTimer && this.watchedDeadline <= deadline)) return;
    clearTimeout(this.deadlineTimer);
    this.watchedDeadline = deadline;
    this.deadlineTimer = setTimeout(() => this.enforceDeadlines(), Math.max(0, deadline - performance.now()) + 1);
  }

  /**
   * A renewal that was answered in time counts, also where its answer lies unread in a socket: it is read first. And where
   * the process has just stood still nothing could be renewed meanwhile: one renewal is asked for.
   */
  private enforceDeadlines(): void {
    this.deadlineTimer = undefined;
    this.noteStandstill(this.watchedDeadline);
    const hasStoodStill = performance.now() - this.wentOnAt < ASK_MS;
    const asked = hasStoodStill ? socketsRead().then(() => this.askOnce()) : socketsRead();
    void asked.then(() => this.giveUpOverdue());
  }

  /** Of several timers that are due after it the first one tells, however close to its end the others were set for. */
  private noteStandstill(timerWasFor: number): void {
    if (isLate(timerWasFor)) this.wentOnAt = performance.now();
  }

  /** A renewal, for a second at most. Until it is accepted nothing that depends on the lease begins. */
  private askOnce(): Promise<void> {
    this.asking ??= this.ask().finally(() => (this.asking = undefined));
    return this.asking;
  }

  /** After a standstill the connections may be gone: one that fails is sent again. */
  private async ask(): Promise<void> {
    const until = performance.now() + ASK_MS;
    let accepted = false;
    while (!accepted && !this.stopped && performance.now() < until) {
      const renewed = this.renew().then(async (isAccepted) => {
        accepted = isAccepted;
        if (!isAccepted) await pause(ASK_AGAIN_MS);
      });
      await within(until - performance.now(), renewed);
    }
  }

  private giveUpOverdue(): void {
    if (this.stopped) return;
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
