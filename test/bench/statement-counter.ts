import pg from 'pg';

interface Queryable {
  query: (this: unknown, ...given: unknown[]) => unknown;
}

/** Counts the statements that this process sends, whoever sends them and in whatever connection. */
export class StatementCounter {
  private readonly counted: string[] = [];
  private readonly original: Queryable['query'];

  constructor() {
    const prototype = pg.Client.prototype as unknown as Queryable;
    const { counted } = this;
    const original = prototype.query;
    this.original = original;
    prototype.query = function (this: unknown, ...given: unknown[]) {
      const [first] = given;
      counted.push(typeof first === 'string' ? first : String((first as { text?: unknown }).text));
      return original.apply(this, given);
    };
  }

  /** How many were sent since the last call, of those with this text in them. */
  take(text = ''): number {
    return this.counted.splice(0).filter((statement) => statement.includes(text)).length;
  }

  stop(): void {
    (pg.Client.prototype as unknown as Queryable).query = this.original;
  }
}
