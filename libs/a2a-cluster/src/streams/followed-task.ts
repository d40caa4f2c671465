import type { VersionedTaskEvent } from '../tasks/task-event.js';
import type { TaskPosition } from '../tasks/task-store.js';

const MAX_RING_EVENTS = 512;
const MAX_RING_BYTES = 1024 * 1024;

/** Reads a page of the log from the database. */
export type PageReader = (afterVersion: number) => Promise<VersionedTaskEvent[]>;

/** How much was known of a task when its log was read. */
interface Look {
  wakeups: number;
  version: number;
}

/**
 * Shared by the followers of one task on this replica: the recent events, the news that there may be more, and one
 * read of the database where several of them stand at the same version.
 */
export class FollowedTask {
  followers = 0;
  /** The task was there, and is not any more. */
  deleted = false;
  /** The version at which it has ended, once a poll has shown that. */
  endedAt: number | undefined;
  private lossCount = 0;
  /** Counts the wake-ups: each may be about events that this replica has not seen. */
  private wakeups = 0;
  private ring: VersionedTaskEvent[] = [];
  private ringBytes = 0;
  private readonly waiting = new Set<() => void>();
  private readonly reads = new Map<number, { look: Look; page: Promise<VersionedTaskEvent[]> }>();

  /** The highest version this replica has seen of the task. */
  knownVersion = 0;

  /**
   * The highest version that all followers were woken for. A read by one of them tells the others nothing, so it does
   * not count here: the poll wakes them.
   */
  wokenVersion = 0;

  /**
   * How often the database has lost commits of it that were seen here. The same versions may hold other events since, so
   * what was read before says nothing of what follows.
   */
  get losses(): number {
    return this.lossCount;
  }

  /** Somebody stands at this version, which the database has shown. */
  seen(version: number): void {
    this.knownVersion = Math.max(this.knownVersion, version);
  }

  /** A poll has shown this position. */
  polled({ version, ended }: TaskPosition): void {
    this.deleted = false;
    const endsNow = ended === true && this.endedAt === undefined;
    this.endedAt = ended ? version : undefined;
    this.seen(version);
    // Its end may have the number of an event that was lost: whoever stands there looks once more.
    if (version <= this.wokenVersion && !endsNow) return;
    this.wokenVersion = Math.max(this.wokenVersion, version);
    this.wake();
  }

  /** The log went back to this. */
  lost(position: TaskPosition): void {
    this.lossCount += 1;
    this.clear();
    this.reads.clear();
    this.knownVersion = position.version;
    this.wokenVersion = position.version;
    this.endedAt = undefined;
    this.polled(position);
    this.wake();
  }

  /** The task is gone. */
  gone(): void {
    this.deleted = true;
    this.wake();
  }

  /** There may be something new, somewhere. */
  wake(): void {
    this.wakeups += 1;
    this.resume();
  }

  /** This replica has committed these: whoever stands before them need not ask the database. */
  committed(events: readonly VersionedTaskEvent[]): void {
    this.remember(events);
    this.wokenVersion = Math.max(this.wokenVersion, events.at(-1)?.version ?? 0);
    this.resume();
  }

  /** To be taken before the log is read. */
  look(): Look {
    return { wakeups: this.wakeups, version: this.knownVersion };
  }

  /** Whether somebody at this version, who read the log at the last look, has a reason to read it again. */
  hasNews(cursor: number, last: Look | undefined): boolean {
    return last?.wakeups !== this.wakeups || this.knownVersion > Math.max(cursor, last.version);
  }

  private resume(): void {
    for (const resume of this.waiting) resume();
    this.waiting.clear();
  }

  /** Resolves at the next wake-up, or when `cancel` of the returned handle is called. */
  wait(): { done: Promise<void>; cancel: () => void } {
    let resume!: () => void;
    const done = new Promise<void>((resolve) => (resume = resolve));
    this.waiting.add(resume);
    return {
      done,
      cancel: () => {
        this.waiting.delete(resume);
        resume();
      },
    };
  }

  /** Recent events after a version; empty where the ring does not hold the very next one. */
  recent(afterVersion: number): VersionedTaskEvent[] {
    const first = this.ring[0];
    if (!first || afterVersion + 1 < first.version) return [];
    return this.ring.slice(afterVersion + 1 - first.version);
  }

  /** A page of the log from the database, shared by the followers that stand at this version. */
  read(afterVersion: number, reader: PageReader): Promise<VersionedTaskEvent[]> {
    const running = this.reads.get(afterVersion);
    // One that began before the last news may have missed them.
    if (running && !this.hasNews(0, running.look)) return running.page;
    const { losses } = this;
    const page = reader(afterVersion).then((events) => {
      if (losses === this.losses) this.remember(events);
      return events;
    });
    const entry = { look: this.look(), page };
    this.reads.set(afterVersion, entry);
    const forget = (): void => {
      if (this.reads.get(afterVersion) === entry) this.reads.delete(afterVersion);
    };
    page.then(forget, forget);
    return page;
  }

  /** Keeps recent events, always a dense run of the log and never more than the bounds. */
  remember(events: readonly VersionedTaskEvent[]): void {
    for (const event of events) {
      const next = (this.ring.at(-1)?.version ?? event.version - 1) + 1;
      if (event.version < next) continue;
      if (event.version > next) this.clear();
      this.ring.push(event);
      this.ringBytes += event.bytes;
    }
    this.knownVersion = Math.max(this.knownVersion, events.at(-1)?.version ?? 0);
    let surplus = 0;
    while (this.ring.length - surplus > MAX_RING_EVENTS || this.ringBytes > MAX_RING_BYTES) {
      const dropped = this.ring[surplus];
      if (!dropped) break;
      this.ringBytes -= dropped.bytes;
      surplus += 1;
    }
    if (surplus > 0) this.ring.splice(0, surplus);
  }

  private clear(): void {
    this.ring = [];
    this.ringBytes = 0;
  }
}
