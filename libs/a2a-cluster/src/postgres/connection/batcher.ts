import { AsyncLocalStorage } from 'node:async_hooks';
import { DatabaseTimeoutError } from '../../errors/database-timeout.error.js';
import { isContention, isPassing } from './database-errors.js';
import { type Bound, boundedBy } from '../../async/late-timer.js';

/** A work that takes longer, in ms, is not waited for: whatever holds it up holds up nobody else. */
const COUNTED_FOR_MS = 25;

/** Work that is asked for one by one and can be done for several at once. Each answers within its bound in ms. */
export interface JointWork<Item, Answer> {
  alone(item: Item, timeoutMs: number): Promise<Answer>;
  /** Answers by the position of their items. One that has none is done alone. */
  together(items: readonly Item[], timeoutMs: number): Promise<ReadonlyMap<number, Answer>>;
}

/**
 * Does together what is asked for while `atOnce` works are under way: under load an item costs a share of a statement,
 * and as long as there are few, none waits. Done alone is what has no answer from the others' work, and what was in a
 * work that failed for a defect or for rows that somebody else holds: those of one item are not the others'.
 */
export class Batcher<Item, Answer> {
  /** Joint work belongs to nobody's async context. */
  private readonly outside = AsyncLocalStorage.snapshot();
  private waiting: Waiting<Item, Answer>[] = [];
  private running = 0;

  constructor(
    private readonly work: JointWork<Item, Answer>,
    private readonly limits: { atOnce: number; maxItems: number },
  ) {}

  ask(item: Item, timeoutMs: number): Promise<Answer> {
    if (this.waiting.length === 0 && this.running < this.limits.atOnce) {
      const answer = this.work.alone(item, timeoutMs);
      this.count(answer);
      return answer;
    }
    const one = new Waiting<Item, Answer>(item, timeoutMs);
    this.waiting.push(one);
    return one.answer;
  }

  /** A work is under way as long as it takes, or as long as it is waited for. */
  private count(work: Promise<unknown>): void {
    this.running += 1;
    let counted = true;
    const done = (): void => {
      if (!counted) return;
      counted = false;
      clearTimeout(countedFor);
      this.running -= 1;
      this.outside(() => this.next());
    };
    const countedFor = setTimeout(done, COUNTED_FOR_MS);
    work.then(done, done);
  }

  private next(): void {
    if (this.running >= this.limits.atOnce) return;
    this.waiting = this.waiting.filter((one) => !one.isOver);
    while (this.waiting.length > 0 && this.running < this.limits.atOnce) {
      this.count(this.run(this.waiting.splice(0, this.limits.maxItems)));
    }
  }

  /** Never fails: whoever waits is told. */
  private async run(batch: readonly Waiting<Item, Answer>[]): Promise<void> {
    if (batch.length === 1) return this.runAlone(batch[0]!);
    const answers = await this.runTogether(batch);
    batch.forEach((one, at) => {
      if (answers.has(at)) one.resolve(answers.get(at)!);
      else void this.runAlone(one);
    });
  }

  private async runTogether(batch: readonly Waiting<Item, Answer>[]): Promise<ReadonlyMap<number, Answer>> {
    const items = batch.map(({ item }) => item);
    try {
      return await this.work.together(items, Math.max(...batch.map(({ leftMs }) => leftMs)));
    } catch (error) {
      // If the database is in trouble, those who ask try again. Alone and at once, each would only add to the trouble.
      if (isPassing(error) && !isContention(error)) for (const one of batch) one.reject(error);
      return new Map();
    }
  }

  private async runAlone(one: Waiting<Item, Answer>): Promise<void> {
    if (one.isOver) return;
    try {
      one.resolve(await this.work.alone(one.item, one.leftMs));
    } catch (error) {
      one.reject(error);
    }
  }
}

/** A work that begins late, since this process stood still, has this long all the same, in ms. */
const LEAST_MS = 1_000;

/** An item that has to wait for its work. Within its bound it has an answer or an error. */
class Waiting<Item, Answer> {
  readonly answer: Promise<Answer>;
  isOver = false;
  private readonly deadline: number;
  private readonly bound: Bound;
  private settle!: { resolve: (answer: Answer) => void; reject: (error: unknown) => void };

  constructor(
    readonly item: Item,
    private readonly timeoutMs: number,
  ) {
    this.answer = new Promise((resolve, reject) => (this.settle = { resolve, reject }));
    this.deadline = performance.now() + timeoutMs;
    this.bound = boundedBy(timeoutMs, () => this.reject(new DatabaseTimeoutError(timeoutMs)));
  }

  get leftMs(): number {
    return Math.max(this.deadline - performance.now(), Math.min(this.timeoutMs, LEAST_MS));
  }

  resolve(answer: Answer): void {
    this.end();
    this.settle.resolve(answer);
  }

  reject(error: unknown): void {
    this.end();
    this.settle.reject(error);
  }

  private end(): void {
    this.isOver = true;
    this.bound.clear();
  }
}
