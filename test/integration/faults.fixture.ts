import type { EntityManager } from 'typeorm';
import { ClusterDatabase } from '../../libs/a2a-cluster/src/postgres/connection/cluster-database.js';
import type { DatabaseAccess } from '../../libs/a2a-cluster/src/postgres/connection/database-access.js';
import type { SqlExecutor } from '../../libs/a2a-cluster/src/postgres/connection/statement.js';
import { storeError } from '../../libs/a2a-cluster/src/postgres/connection/database-errors.js';
import type { Lane } from '../../libs/a2a-cluster/src/postgres/connection/connection-queue.js';
import type { DedicatedConnection } from '../../libs/a2a-cluster/src/postgres/connection/dedicated-connection.js';
import { Deferred, within } from '../../tools/harness/wait.js';

/** How a replica sees the database: a test that breaks statements on purpose gives its own. */
export type DatabaseFactory = (...args: ConstructorParameters<typeof ClusterDatabase>) => ClusterDatabase;

/** The way of stores to a database that is there already. */
export const accessTo = (database: ClusterDatabase): DatabaseAccess =>
  ({ require: () => database, used: database }) as unknown as DatabaseAccess;

/** Stands between a replica and the database. `run` sends the statement, or another one in its place. */
export type Interception = (
  sql: string,
  run: (sql?: string) => Promise<object[]>,
  params?: readonly unknown[],
) => Promise<object[]>;

/** A database whose statements a test watches, stops, fails or rewrites: whoever runs them, in whatever connection. */
export class InterceptedDatabase extends ClusterDatabase {
  intercept: Interception = (_sql, run) => run();
  /** Runs a whole transaction of several statements. */
  interceptTransaction: (run: (last?: () => Promise<void>) => Promise<unknown>) => Promise<unknown> = (run) => run();

  override query<R extends object>(sql: string, params?: unknown[], timeoutMs?: number, lane?: Lane): Promise<R[]> {
    return asStoresSee(
      this.intercept(sql, (text = sql) => super.query(text, params, timeoutMs, lane), params ?? []) as Promise<R[]>,
    );
  }

  override transaction<T>(work: (tx: SqlExecutor) => Promise<T>, timeoutMs?: number, lane?: Lane): Promise<T> {
    const run = (last: () => Promise<void> = () => Promise.resolve()): Promise<T> =>
      super.transaction(
        async (tx) => {
          const result = await work({
            query: <R extends object>(sql: string, params?: unknown[]) =>
              this.intercept(sql, (text = sql) => tx.query(text, params), params ?? []) as Promise<R[]>,
          });
          await last();
          return result;
        },
        timeoutMs,
        lane,
      );
    return asStoresSee(this.interceptTransaction(run) as Promise<T>);
  }

  /** The COMMIT of a user's transaction. */
  interceptCommit: (commit: () => Promise<void>) => Promise<void> = (commit) => commit();

  override managed<T>(
    work: (manager: EntityManager, tx: SqlExecutor) => Promise<T>,
    options: Parameters<ClusterDatabase['managed']>[1],
  ): Promise<T> {
    return super.managed(async (manager, tx) => {
      const result = await work(manager, {
        query: <R extends object>(sql: string, params?: unknown[]) =>
          this.intercept(sql, (text = sql) => tx.query(text, params), params ?? []) as Promise<R[]>,
      });
      // From here on: until now savepoints were released by the same method.
      const runner = manager.queryRunner!;
      const commit = runner.commitTransaction.bind(runner);
      runner.commitTransaction = () => this.interceptCommit(commit);
      return result;
    }, options);
  }

  override dedicated(...args: Parameters<ClusterDatabase['dedicated']>): DedicatedConnection {
    const connection = super.dedicated(...args);
    const query = connection.query.bind(connection);
    connection.query = <R extends object>(sql: string, params: unknown[], timeoutMs: number) =>
      this.intercept(sql, (text = sql) => query(text, params, timeoutMs), params) as Promise<R[]>;
    return connection;
  }
}

/** What a test throws in the database's place reaches a store as the same error of the database would. */
async function asStoresSee<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw storeError(error, false);
  }
}

/** What a guard's text is replaced with. */
export type Rewrite = readonly [guard: string | RegExp, without: string];

/** `$1` in it stands for what the guard's first group has matched; a guard without groups leaves parameters alone. */
const withGroups = (without: string, matched: readonly unknown[]): string => {
  const groups = matched.slice(
    0,
    matched.findIndex((it) => typeof it === 'number'),
  );
  return without.replace(/\$(\d)/g, (parameter, at: string) => (groups[Number(at) - 1] as string) ?? parameter);
};

/** For a negative control: a replica without one of its guards, and the check that the guard really was gone. */
export interface Guardless {
  database: DatabaseFactory;
  expectGone: () => void;
}

/** Takes one guard out of the statements that have it: those in which every one of the texts is found. */
export const withoutGuard = (...rewrites: Rewrite[]): Guardless => withoutGuards(rewrites);

/** The same for guards that stand in several statements and would make up for each other. */
export function withoutGuards(...guards: Rewrite[][]): Guardless {
  const gone = new Set<Rewrite[]>();
  const rewritten = (sql: string, guard: Rewrite[]): string => {
    const bare = guard.reduce<string | undefined>((text, [found, without]) => {
      const replaced = text?.replace(found, (_, ...matched: unknown[]) => withGroups(without, matched));
      return replaced === text ? undefined : replaced;
    }, sql);
    if (bare !== undefined) gone.add(guard);
    return bare ?? sql;
  };
  return {
    database: (...args) => {
      const database = new InterceptedDatabase(...args);
      database.intercept = (sql, run) => run(guards.reduce(rewritten, sql));
      return database;
    },
    expectGone: () => expect(gone.size).toBe(guards.length),
  };
}

/** A database that a test holds in its hand. */
export function interceptable(): { database: DatabaseFactory; get: () => InterceptedDatabase } {
  let made: InterceptedDatabase | undefined;
  return {
    database: (...args) => (made = new InterceptedDatabase(...args)),
    get: () => {
      if (!made) throw new Error('No replica was made with it yet');
      return made;
    },
  };
}

/** What a connection that breaks looks like to pg's callers. */
export function connectionReset(): Error {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
}

/** How a task is looked up, other than to decide about it. */
export const READ_TASK = /^(?![\s\S]*leaseGeneration)[\s\S]*AS "snapshotVersion"/;

const standing = new Set<Pause>();

/** For `afterEach`: a test that failed leaves nobody standing. */
export const resumeAll = (): void => standing.forEach((pause) => pause.resume());

/** Stops the first statement that matches, or every one: before it is sent, or once it was answered. */
export class Pause {
  private readonly arrived = new Deferred();
  private readonly resumed = new Deferred();
  private used = false;

  constructor(
    private readonly statement: RegExp,
    private readonly when: 'before' | 'after',
    private readonly which: 'first' | 'every' = 'first',
  ) {
    standing.add(this);
  }

  /** It stands there now. */
  get reached(): Promise<void> {
    return within(this.arrived.promise, 10_000, () => `a statement like ${this.statement} is sent`);
  }

  resume(): void {
    standing.delete(this);
    this.resumed.resolve();
  }

  readonly intercept: Interception = async (sql, run) => {
    if ((this.used && this.which === 'first') || !this.statement.test(sql)) return run();
    this.used = true;
    const rows = this.when === 'after' ? await run() : undefined;
    this.arrived.resolve();
    await this.resumed.promise;
    return rows ?? run();
  };
}
