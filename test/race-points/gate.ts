/** Lets so many work at once, and the others wait. */
export class Gate {
  private readonly waiting: (() => void)[] = [];

  constructor(private free: number) {}

  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.free > 0) this.free -= 1;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.free += 1;
    }
  }
}
