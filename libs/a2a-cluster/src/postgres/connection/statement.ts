import type { Lane } from './connection-queue.js';

/** Runs statements in one connection: a transaction's, or a single one's. */
export interface SqlExecutor {
  /** `timeoutMs` bounds a statement on its own, and `lane` queues it; in a transaction the transaction's hold. */
  query<R extends object>(sql: string, params?: unknown[], timeoutMs?: number, lane?: Lane): Promise<R[]>;
}

/** A parameter, or what is quoted: names of tables and texts may hold a dollar sign too. */
const PARAMETERS = /"(?:[^"]|"")*"|'(?:[^']|'')*'|\$([a-zA-Z]\w*)/g;

/**
 * A statement with named parameters, which PostgreSQL is given as numbered ones: `$holder` stands wherever the value of
 * `holder` does. `Params` are its parameters. `Row` is what becomes of a row of its answer.
 */
export class Statement<Params extends object, Row extends object = object> {
  /** As PostgreSQL gets it. */
  readonly text: string;
  private readonly names: (keyof Params)[] = [];

  /** @param toRow makes a row of what the driver gives. Bigint columns arrive as strings. */
  constructor(
    source: string,
    private readonly toRow: (raw: never) => Row = (raw) => raw,
  ) {
    this.text = source.replace(PARAMETERS, (found, name: string | undefined) =>
      name === undefined ? found : `$${this.numberOf(name as keyof Params)}`,
    );
  }

  async run(
    on: SqlExecutor,
    params: Params,
    { timeoutMs, lane }: { timeoutMs?: number; lane?: Lane } = {},
  ): Promise<Row[]> {
    const rows = await on.query(this.text, this.values(params), timeoutMs, lane);
    return rows.map((raw) => this.toRow(raw as never));
  }

  /** The values in the order of their numbers. What is undefined is NULL; what is not there at all is a mistake. */
  values(params: Params): unknown[] {
    return this.names.map((name) => {
      if (name in params) return params[name] ?? null;
      throw new TypeError(`The statement has no value for its parameter ${String(name)}.`);
    });
  }

  private numberOf(name: keyof Params): number {
    const at = this.names.indexOf(name);
    return at < 0 ? this.names.push(name) : at + 1;
  }
}

/** Runs a statement that prunes. How many rows it has pruned. */
export async function prunedBy<Params extends object>(
  on: SqlExecutor,
  statement: Statement<Params, { pruned: number }>,
  params: Params,
): Promise<number> {
  const [row] = await statement.run(on, params);
  return row?.pruned ?? 0;
}

/** The bounds of pruning: the least age, and the most rows. */
export interface PruneParams {
  olderThanMs: number;
  limit: number;
}
