/** A place in the queue of those who wait for the same thing. */
export interface Place {
  /** Whether nobody is ahead. */
  readonly isFirst: boolean;
  /** Resolves when nobody is ahead any more, or when the signal aborts: false then. */
  reached(stop: AbortSignal): Promise<boolean>;
  /** Gives it up: the next one is reached. More than once does no harm. */
  leave(): void;
}

/** Lets one look at a time at what several wait for: the first one looks, the others stand behind it. */
export class LookQueue {
  private readonly queues = new Map<string, Set<() => void>>();

  enter(key: string): Place {
    const queue = this.queues.get(key) ?? new Set();
    this.queues.set(key, queue);
    let comeFirst!: () => void;
    const first = new Promise<void>((resolve) => (comeFirst = resolve));
    queue.add(comeFirst);
    if (queue.size === 1) comeFirst();
    return {
      get isFirst() {
        return queue.values().next().value === comeFirst;
      },
      reached: (stop) => reached(first, stop),
      leave: () => {
        queue.delete(comeFirst);
        const [next] = queue;
        if (next) next();
        else if (this.queues.get(key) === queue) this.queues.delete(key);
      },
    };
  }
}

function reached(first: Promise<void>, stop: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const give = (isReached: boolean): void => {
      stop.removeEventListener('abort', stopped);
      resolve(isReached);
    };
    const stopped = (): void => give(false);
    if (stop.aborted) stopped();
    stop.addEventListener('abort', stopped, { once: true });
    void first.then(() => give(true));
  });
}
