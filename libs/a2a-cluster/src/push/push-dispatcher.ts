import { setMaxListeners } from 'node:events';
import { Injectable } from '@nestjs/common';
import { messageOf } from '../errors/described.js';
import { racePoint } from '../race-points/race-points.js';
import { Poller } from '../streams/poller.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { levelingEvents } from '../tasks/expand-task-event.js';
import { stateSetBy, toStreamResponse, type VersionedTaskEvent } from '../tasks/task-event.js';
import { isTerminal } from '../tasks/task-states.js';
import { VersionedTaskStore } from '../tasks/task-store.js';
import { type PushAnswer, PushClient, type PushRequest } from './push-client.js';
import { type ClaimedPush, PushConfigStore, type PushProgress } from './push-config-store.js';
import { needsTask, pushNotification } from './push-notification.js';
import type { PushOptions } from '../options/push.options.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { LibraryLogger } from '../logging/library.logger.js';

const PAGE_EVENTS = 100;

/** How often a delivery that goes on records where it stands, in ms: what a crash has told twice at most. */
const RECORD_MS = 1_000;

const MAX_BACKOFF_MS = 300_000;

/** Retries never take more than this part of the deliveries at once: receivers that are well go first. */
const RETRY_SHARE = 0.5;

/** A receiver that has not answered for so long, in ms, gives its place to another: a dead one holds up nobody. */
const SLOW_ANSWER_MS = 250;

/**
 * The most deliveries at once, those that gave their places away among them: so many times the places. Only where more
 * new receivers than these do not answer do others wait, for the time-out at most for each so many of them.
 */
const MOST_WAITING = 4;

const BATCH = 100;

/** Wake-ups are gathered for this long, in ms: an agent that streams wakes many times a second. */
const GATHER_MS = 50;

/** For how long after the last sign of a receiver wake-ups are heeded, in ms: an app without any is not asked for. */
const ACTIVE_MS = 60_000;

/** While wake-ups are not heeded, the database is asked at every so many polls. */
const IDLE_POLLS = 2;

/** Deliveries of one kind: those to receivers that took their last notification, or the retries. */
interface Lane {
  running: number;
  /** How many of them have given their places away. */
  waiting: number;
  /** Whether those that were never told anything came first the last time. */
  newFirst: boolean;
}

/** A receiver that is being told. */
interface Delivery extends ClaimedPush {
  lane: Lane;
  /**
   * When the database was asked for the claim, by this process's monotonic clock: it holds from then on at the least.
   */
  claimedAt: number;
}

/**
 * Tells receivers what happened to their tasks: reads the log from where each of them stands, and posts event after event.
 * Every replica runs one; a receiver is told by whoever has claimed it, at least once, and in order.
 */
@Injectable()
export class PushDispatcher {
  private readonly logger = new LibraryLogger('A2AClusterPush');
  private readonly stopping = new AbortController();
  private readonly running = new Set<Promise<void>>();
  private readonly fresh: Lane = { running: 0, waiting: 0, newFirst: false };
  private readonly retries: Lane = { running: 0, waiting: 0, newFirst: false };
  private asked = false;
  private round: Promise<void> | undefined;
  private gathering: NodeJS.Timeout | undefined;
  private activeUntil = 0;
  private idlePolls = 0;
  private readonly options: PushOptions;

  constructor(
    private readonly configs: PushConfigStore,
    private readonly tasks: VersionedTaskStore,
    private readonly client: PushClient,
    stream: TaskEventStream,
    poller: Poller,
    { push }: ResolvedOptions,
  ) {
    this.options = push;
    setMaxListeners(0, this.stopping.signal);
    poller.register(() => this.poll());
    stream.onWakeup(() => this.wake());
    stream.onCommitted(() => this.wake());
  }

  /** A receiver was registered here: what it is to be told is looked for without waiting for the poll. */
  registered(): void {
    this.activeUntil = performance.now() + ACTIVE_MS;
    this.wake();
  }

  /** Claims what is due and tells it; resolves when that is done. */
  async runOnce(): Promise<void> {
    await this.claimDue();
    while (this.running.size > 0) await Promise.all(this.running);
  }

  /** Claims nothing more, and gives back what is not told yet. */
  async stop(): Promise<void> {
    this.stopping.abort();
    clearTimeout(this.gathering);
    await this.round?.catch(() => undefined);
    while (this.running.size > 0) await Promise.all(this.running);
    this.client.close();
  }

  private async poll(): Promise<void> {
    if (!this.isActive && this.idlePolls++ % IDLE_POLLS !== 0) return;
    await this.claimDue();
  }

  /** There was a sign of a receiver not long ago. */
  private get isActive(): boolean {
    return performance.now() < this.activeUntil;
  }

  private wake(): void {
    if (this.gathering || this.stopping.signal.aborted || !this.isActive) return;
    this.gathering = setTimeout(() => {
      this.gathering = undefined;
      void this.claimDue().catch(() => undefined); // the poll looks again, and says so
    }, GATHER_MS);
  }

  private claimDue(): Promise<void> {
    this.asked = true;
    this.round ??= this.claimAll().finally(() => (this.round = undefined));
    return this.round;
  }

  /**
   * One statement where there is little to do. Then by turns, so that many of one kind do not hold up the other, and again
   * if somebody asked meanwhile.
   */
  private async claimAll(): Promise<void> {
    this.asked = false;
    let more = this.running.size > 0 || (await this.claim(this.fresh, this.retries));
    while (more || this.asked) {
      this.asked = false;
      more = await this.claim(this.fresh);
      more = (await this.claim(this.retries)) || more;
    }
  }

  /** One batch for all of the lanes; true if there may be more. */
  private async claim(...lanes: [Lane] | [Lane, Lane]): Promise<boolean> {
    const limit = Math.min(...lanes.map((lane) => this.free(lane)));
    if (limit <= 0) return false;
    const claimedAt = performance.now();
    const [lane] = lanes;
    lane.newFirst = !lane.newFirst;
    racePoint('push-claim.before');
    const claimed = await this.configs.claim({
      limit,
      claimMs: this.claimMs,
      first: lane.newFirst ? 'new' : 'told',
      ...(lanes.length === 1 && { lastNotification: lane === this.retries ? 'failed' : 'taken' }),
    });
    // Most claims find nothing, and leave nothing.
    if (claimed.length > 0) racePoint('push-claim.after');
    for (const push of claimed) {
      this.start({ ...push, lane: push.attempts > 0 ? this.retries : this.fresh, claimedAt });
    }
    return claimed.length === limit;
  }

  /** How many more deliveries may begin: by the places, and by all that goes on. */
  private free(lane: Lane): number {
    if (this.stopping.signal.aborted) return 0;
    const room = (places: number, used: (lane: Lane) => number): number => {
      const left = places - used(this.fresh) - used(this.retries);
      if (lane !== this.retries) return left;
      return Math.min(left, Math.max(1, Math.floor(places * RETRY_SHARE)) - used(lane));
    };
    const { maxConcurrentDeliveries: places } = this.options;
    const prompt = room(places, ({ running, waiting }) => running - waiting);
    const all = room(MOST_WAITING * places, ({ running }) => running);
    return Math.min(BATCH, prompt, all);
  }

  /** A notification may take its time-out, and begins no later than a second after the claim was known to hold. */
  private get claimMs(): number {
    return 2 * this.options.timeoutMs + 5 * RECORD_MS;
  }

  private start(at: Delivery): void {
    this.activeUntil = performance.now() + ACTIVE_MS;
    at.lane.running += 1;
    const delivery = this.deliver(at)
      .catch((error: unknown) =>
        this.logger.warn(`A push delivery broke off, and is taken up again: ${messageOf(error)}`),
      )
      .finally(() => {
        this.running.delete(delivery);
        at.lane.running -= 1;
        // Something may have come meanwhile, or have waited for a free place.
        this.wake();
      });
    this.running.add(delivery);
  }

  /** Tells one receiver what it does not know, until it is level with the log or does not take it. */
  private async deliver(at: Delivery): Promise<void> {
    // It may be dead: until it has taken something, no more is held for it than what it is sent.
    for (let limit = 1; ; limit = PAGE_EVENTS) {
      const events = await this.next(at, limit);
      if (events.length === 0) return void (await this.recordProgress(at, { againInMs: 0 }));
      for (const { version, event } of events) {
        const notification = await this.notification(at, event);
        if (notification) {
          if (!(await this.keepsClaim(at))) return; // somebody else's by now, who tells what we may have told
          racePoint('push-post.before');
          const answer = await this.post(at, notification);
          racePoint('push-post.after');
          if (!answer.taken) return this.failed(at, answer);
          at.attempts = 0;
        }
        at.deliveredVersion = version;
        if (isTerminal(stateSetBy(event) ?? 0)) return void (await this.recordProgress(at, { againInMs: Infinity }));
      }
    }
  }

  private async post({ lane }: Delivery, notification: PushRequest): Promise<PushAnswer> {
    let waiting = 0;
    const slowAnswer = setTimeout(() => {
      lane.waiting += waiting = 1;
      this.wake();
    }, SLOW_ANSWER_MS);
    try {
      return await this.client.post(notification, this.stopping.signal);
    } finally {
      clearTimeout(slowAnswer);
      lane.waiting -= waiting;
    }
  }

  /** The notification of an event; undefined if there is none. */
  private async notification(push: ClaimedPush, event: VersionedTaskEvent['event']): Promise<PushRequest | undefined> {
    const response = toStreamResponse(event);
    if (!response) return undefined;
    const task = needsTask(push) ? (await this.tasks.findByNo(push.taskNo))?.task : undefined;
    return pushNotification(push, response, task);
  }

  /**
   * Whether the claim outlives a POST that begins now, so that no two replicas tell a receiver at once. It is made longer,
   * and where we stand recorded, once a second; a process that stood still in between finds out here. What remains: one
   * that stands still after this sends what it was about to.
   */
  private async keepsClaim(at: Delivery): Promise<boolean> {
    if (performance.now() - at.claimedAt < RECORD_MS) return true;
    const askedAt = performance.now();
    const claim = await this.recordProgress(at, { againInMs: this.claimMs });
    if (claim === undefined) return false;
    Object.assign(at, { claim, claimedAt: askedAt });
    return performance.now() - askedAt < this.claimMs - this.options.timeoutMs;
  }

  private async failed(push: ClaimedPush, { reason, gone }: Extract<PushAnswer, { taken: false }>): Promise<void> {
    // Stopped by us: that is no failure of the receiver's.
    if (this.stopping.signal.aborted) return void (await this.recordProgress(push, { againInMs: 0 }));
    const attempts = push.attempts + 1;
    const { maxAttempts, backoffMs } = this.options;
    const over = gone || attempts >= maxAttempts;
    if (over) this.logger.warn(`Gave up a push receiver of task number ${push.taskNo}: ${reason}.`);
    const backoff = Math.min(backoffMs * 2 ** (attempts - 1), MAX_BACKOFF_MS) * (1 - Math.random() / 2);
    await this.recordProgress(
      { ...push, attempts },
      over ? { againInMs: Infinity, failed: reason } : { againInMs: backoff },
    );
  }

  private async recordProgress(
    push: ClaimedPush,
    progress: Pick<PushProgress, 'againInMs' | 'failed'>,
  ): Promise<string | undefined> {
    const { deliveredVersion, attempts } = push;
    racePoint('push-record.before');
    const claim = await this.configs.progress(push, { deliveredVersion, attempts, ...progress });
    racePoint('push-record.after');
    return claim;
  }

  /**
   * The events that a receiver does not know; where the log no longer has them, what brings it level. So too where the
   * database has lost events that it was told: those were committed before this asks for the task.
   */
  private async next({ taskNo, deliveredVersion }: Delivery, limit: number): Promise<VersionedTaskEvent[]> {
    const events = await this.page(taskNo, deliveredVersion, limit);
    if (events.length > 0) return events;
    const stored = await this.tasks.findByNo(taskNo);
    if (!stored || stored.version === deliveredVersion) return [];
    if (stored.version < deliveredVersion) return levelingEvents(stored, deliveredVersion);
    // It may have come since: only what is not there after the task says that it was written is lost.
    const late = await this.page(taskNo, deliveredVersion, limit);
    return late.length > 0 ? late : levelingEvents(stored, deliveredVersion);
  }

  /** Up to the first gap: two replicas that prune at once may delete later events before earlier ones. */
  private async page(taskNo: number, version: number, limit: number): Promise<VersionedTaskEvent[]> {
    const events = await this.tasks.readEvents(taskNo, version, limit);
    const gap = events.findIndex((event, at) => event.version !== version + 1 + at);
    return gap < 0 ? events : events.slice(0, gap);
  }
}
