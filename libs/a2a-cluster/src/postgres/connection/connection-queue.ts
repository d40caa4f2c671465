import { DatabaseOverloadedError } from '../../errors/database-overloaded.error.js';

/** The purpose of a connection. */
export type Lane =
  /** Renewals of leases: without them all turns of this replica are lost. */
  | 'renewal'
  /** Cancels, recovery, and what shuts a replica down. */
  | 'control'
  /** Writes of turns. */
  | 'turn'
  /** Reads. */
  | 'read';

/** From the most urgent to the least. */
const LANES = ['renewal', 'control', 'turn', 'read'] as const satisfies readonly Lane[];

/** How many connections a lane and those below it leave to the ones above. */
const LEFT_FREE: Readonly<Record<Lane, number>> = { renewal: 0, control: 1, turn: 2, read: 3 };

/** So many calls of a lane may wait; a further one is refused at once, since it would only wait for its time-out. */
const MAX_WAITING = 2_000;

/** A call that waits for its turn. */
export interface Waiter {
  /** It waits no longer. Does nothing where it had its turn already. */
  cancel(): void;
}

interface Entry {
  /** Which of two came first. */
  number: number;
  begin: () => void;
}

/**
 * Decides who may use a connection next. The pool of `pg` has a queue of its own, from which nobody can be taken out: those
 * who have given up would be served all the same, one inside the other. So no more is asked of the pool than it has
 * connections, and who waits does so here.
 */
export class ConnectionQueue {
  private readonly used: Record<Lane, number> = { renewal: 0, control: 0, turn: 0, read: 0 };
  private asked = 0;
  private readonly waiting: Readonly<Record<Lane, Set<Entry>>> = {
    renewal: new Set(),
    control: new Set(),
    turn: new Set(),
    read: new Set(),
  };

  /** @param connections how many there can be now */
  constructor(private readonly connections: () => number) {}

  /**
   * Calls `begin` when it is its turn, which may be at once; then {@link done} is to be called.
   * @throws {DatabaseOverloadedError}
   */
  ask(lane: Lane, begin: () => void): Waiter {
    const queue = this.waiting[lane];
    if (queue.size >= MAX_WAITING) throw new DatabaseOverloadedError(queue.size);
    const entry = { number: (this.asked += 1), begin };
    queue.add(entry);
    this.next();
    return { cancel: () => queue.delete(entry) };
  }

  /** The same for one that had its turn, and has to wait once more: it goes before all others of its lane. */
  askAgain(lane: Lane, begin: () => void): Waiter {
    const queue = this.waiting[lane];
    const others = [...queue];
    const entry = { number: 0, begin };
    queue.clear();
    for (const one of [entry, ...others]) queue.add(one);
    this.next();
    return { cancel: () => queue.delete(entry) };
  }

  /** A turn of this lane is over. */
  done(lane: Lane): void {
    this.used[lane] -= 1;
    this.next();
  }

  /** Begins what there is room for: also to be called when there may be more connections than before. */
  next(): void {
    for (let lane = this.nextLane(); lane; lane = this.nextLane()) {
      const queue = this.waiting[lane];
      const [first] = queue;
      queue.delete(first!);
      this.used[lane] += 1;
      first!.begin();
    }
  }

  private nextLane(): Lane | undefined {
    if (this.isReady('renewal')) return 'renewal';
    if (this.isReady('control')) return 'control';
    const ready = (['turn', 'read'] as const).filter((lane) => this.isReady(lane));
    // Of these two, whoever came first: many commits must not keep readers from ever being answered.
    return ready.sort((one, other) => this.firstNumber(one) - this.firstNumber(other))[0];
  }

  private isReady(lane: Lane): boolean {
    if (this.waiting[lane].size === 0) return false;
    const connections = this.connections();
    let used = 0;
    for (const one of [...LANES].reverse()) {
      used += this.used[one];
      const isBelow = LANES.indexOf(one) > LANES.indexOf(lane);
      if (!isBelow && used >= Math.max(1, connections - LEFT_FREE[one])) return false;
    }
    return true;
  }

  private firstNumber(lane: Lane): number {
    const [first] = this.waiting[lane];
    return first?.number ?? Infinity;
  }
}
