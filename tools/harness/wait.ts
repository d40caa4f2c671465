/** Bounds of {@link eventually}, in ms. */
export interface EventuallyOptions {
  /** How long to go on trying. Default 5 000. */
  timeoutMs?: number;
  /** Pause between two tries. Default 20. */
  intervalMs?: number;
}

/** What was waited for did not come in time. */
export class WaitTimeoutError extends Error {
  override readonly name = 'WaitTimeoutError';
}

/**
 * Asks again and again until `fn` returns something truthy, and returns that.
 *
 * @throws {WaitTimeoutError} with the last error of `fn` as its cause, or the last value in its message
 */
export async function eventually<T>(fn: () => T | Promise<T>, options: EventuallyOptions = {}): Promise<T> {
  const { timeoutMs = 5_000, intervalMs = 20 } = options;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    let outcome: string;
    let cause: unknown;
    try {
      const value = await fn();
      if (value) return value;
      outcome = `it was still ${String(value)}`;
    } catch (error) {
      outcome = error instanceof Error ? error.message : String(error);
      cause = error;
    }
    if (performance.now() >= deadline) {
      throw new WaitTimeoutError(`Not so within ${timeoutMs} ms: ${outcome}`, { cause });
    }
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}

/**
 * The promise, or an error once `timeoutMs` have passed. `what` says what did not happen; it may be computed late, so
 * that it can tell what did happen instead.
 *
 * @throws {WaitTimeoutError}
 */
export async function within<T>(promise: Promise<T>, timeoutMs: number, what: string | (() => string)): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new WaitTimeoutError(`Not within ${timeoutMs} ms: ${typeof what === 'string' ? what : what()}`));
    }, timeoutMs);
  });
  try {
    return await Promise.race([promise, expired]);
  } finally {
    clearTimeout(timer);
  }
}

/** A promise settled from outside. A rejection that nobody awaits is no unhandled one. */
export class Deferred<T = void> {
  readonly promise: Promise<T>;
  resolve!: (value: T | PromiseLike<T>) => void;
  reject!: (reason: unknown) => void;

  constructor() {
    this.promise = new Promise<T>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.promise.catch(() => undefined);
  }
}

/** Lets nobody pass before `parties` have arrived; then all of them, and whoever comes after. */
export class Barrier {
  private readonly opened = new Deferred();
  private count = 0;

  constructor(private readonly parties: number) {}

  /** How many have arrived. */
  get arrived(): number {
    return this.count;
  }

  /**
   * Arrives, and waits for the others.
   *
   * @throws {WaitTimeoutError} when they have not come within `timeoutMs`
   */
  arrive(timeoutMs = 10_000): Promise<void> {
    this.count += 1;
    if (this.count >= this.parties) this.opened.resolve();
    return within(this.opened.promise, timeoutMs, () => `${this.count} of ${this.parties} arrived at the barrier`);
  }
}
