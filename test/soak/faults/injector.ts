import { type PlannedFault, queuesOf, type Stage } from './fault.js';
import { faultOf } from './schedule.js';

/** Plays a schedule: each fault at its time, or as soon as the one before it on the same replica is healed. */
export class Injector {
  /** How many were played, by kind. */
  readonly played: Record<string, number> = {};
  private readonly queues = new Map<string, Promise<void>>();
  private readonly timers = new Set<NodeJS.Timeout>();
  private stopped = false;

  constructor(
    private readonly stage: Stage,
    private readonly onError: (error: unknown) => void,
  ) {}

  /** Resolves when all that was begun is healed. */
  async play(schedule: readonly PlannedFault[], forMs: number): Promise<void> {
    for (const planned of schedule) {
      const timer = setTimeout(() => this.queue(planned), planned.atMs);
      this.timers.add(timer);
    }
    await new Promise((resolve) => this.timers.add(setTimeout(resolve, forMs)));
    this.stop();
    await Promise.all(this.queues.values());
  }

  /** Begins none any more. */
  stop(): void {
    this.stopped = true;
    for (const timer of this.timers) clearTimeout(timer);
  }

  private queue(planned: PlannedFault): void {
    const names = queuesOf(faultOf(planned.kind), planned);
    const before = Promise.all(names.map((name) => this.queues.get(name) ?? Promise.resolve()));
    const played = before.then(() => this.apply(planned)).catch(this.onError);
    for (const name of names) this.queues.set(name, played);
  }

  private async apply(planned: PlannedFault): Promise<void> {
    if (this.stopped) return;
    const { clients, recorder } = this.stage;
    const { number, kind, replica, forMs, form } = planned;
    const about = { kind: 'fault', number, fault: kind, ...(replica !== undefined && { replica }) } as const;
    recorder.write({ ...about, phase: 'begins', detail: `${form} ${forMs}` });
    this.played[kind] = (this.played[kind] ?? 0) + 1;
    let said: string | void = undefined;
    try {
      said = await faultOf(kind).apply(this.stage, planned);
    } finally {
      recorder.write({ ...about, phase: 'ends', ...(said && { detail: said }) });
    }
    // Before the next one of the database: what does not recover from this one is not to be healed by that.
    if (faultOf(kind).hits.startsWith('database')) await clients.askAll();
  }
}
