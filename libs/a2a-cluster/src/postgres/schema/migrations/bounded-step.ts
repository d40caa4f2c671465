import type { QueryRunner } from 'typeorm';
import { type BlockingSession, MigrationBlockedError } from '../../../errors/migration-blocked.error.js';
import { isContention } from '../../connection/database-errors.js';

/** Bounds of a step's waits for locks. */
export interface StepBounds {
  /** How long one try waits for a lock, in ms. Everybody who wants the table waits behind it for as long. */
  lockTimeoutMs: number;
  /** After how long no other try is begun, in ms. */
  giveUpAfterMs: number;
}

/** Above PostgreSQL's deadlock_timeout (1 s), after which it cancels an autovacuum that stands in the way. */
const BOUNDS: StepBounds = { lockTimeoutMs: 2_000, giveUpAfterMs: 60_000 };
/** The pauses double: traffic flows for longer the longer the step is kept waiting. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 4_000;
/** How often it is asked during a pause whether others wait for this transaction, in ms. */
const LOOK_MS = 500;

/**
 * Runs the body of a migration's `up` or `down` so that it never stops the traffic. While a statement waits for a lock,
 * everybody behind it waits too. So each try waits for `lockTimeoutMs` only, lets go of all its locks, and is repeated
 * after a pause. The step is all or nothing: a savepoint in TypeORM's transaction, or a transaction of its own.
 *
 * @throws {MigrationBlockedError} with the sessions that hold the lock, after `giveUpAfterMs`; at once if others wait for
 * tables that earlier migrations of the same transaction have locked
 */
export async function boundedStep(
  runner: QueryRunner,
  step: (runner: QueryRunner) => Promise<void>,
  { lockTimeoutMs, giveUpAfterMs }: StepBounds = BOUNDS,
): Promise<void> {
  const within = runner.isTransactionActive;
  const giveUpAt = performance.now() + giveUpAfterMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
    const blocked = await tryStep(runner, step, lockTimeoutMs);
    if (!blocked) return;
    const { cause, sessions } = blocked;
    if (performance.now() >= giveUpAt) {
      throw new MigrationBlockedError(`got no lock on its tables within ${giveUpAfterMs} ms`, sessions, { cause });
    }
    if (await othersWait(runner, within, pauseMs)) {
      const reason =
        'got no lock on one table while others waited for those that its transaction has locked before ' +
        "(migrationsTransactionMode: 'each' keeps no locks between migrations)";
      throw new MigrationBlockedError(reason, sessions, { cause });
    }
  }
}

interface Blocked {
  cause: unknown;
  sessions: BlockingSession[];
}

/** One try. Undefined once the step is done. */
async function tryStep(
  runner: QueryRunner,
  step: (runner: QueryRunner) => Promise<void>,
  lockTimeoutMs: number,
): Promise<Blocked | undefined> {
  // In a transaction TypeORM makes a savepoint of it.
  await runner.startTransaction();
  const watch = new BlockerWatch(runner, lockTimeoutMs);
  try {
    const before = await boundLocks(runner, lockTimeoutMs);
    await watch.begin();
    await step(runner);
    // The other statements of this transaction keep their own bound.
    await runner.query(`SET LOCAL lock_timeout = ${before}`);
    await runner.commitTransaction();
    return undefined;
  } catch (error) {
    const undone = await runner.rollbackTransaction().then(
      () => true,
      () => false, // the connection is gone, and the error says why
    );
    if (!undone || !isContention(error)) throw error;
    return { cause: error, sessions: watch.seen };
  } finally {
    watch.end();
  }
}

/** Returns what was set before, in ms. A shorter bound of the app's own stays. */
async function boundLocks(runner: QueryRunner, lockTimeoutMs: number): Promise<number> {
  const [row] = (await runner.query(
    `SELECT setting::integer AS ms FROM pg_catalog.pg_settings WHERE name = 'lock_timeout'`,
  )) as { ms: number }[];
  const before = row?.ms ?? 0;
  await runner.query(`SET LOCAL lock_timeout = ${before > 0 ? Math.min(before, lockTimeoutMs) : lockTimeoutMs}`);
  return before;
}

/**
 * Waits. True as soon as somebody waits for a table that this transaction holds: a failed try has let go of its own locks
 * (they go with the savepoint), but not of those of migrations before it.
 */
async function othersWait(runner: QueryRunner, within: boolean, pauseMs: number): Promise<boolean> {
  const until = performance.now() + pauseMs;
  for (;;) {
    if (within) {
      const [row] = (await runner.query(
        `SELECT EXISTS (SELECT FROM pg_catalog.pg_locks AS w
                         WHERE w.locktype = 'relation' AND NOT w.granted
                           AND pg_backend_pid() = ANY(pg_blocking_pids(w.pid))) AS waiting`,
      )) as { waiting: boolean }[];
      if (row?.waiting) return true;
    }
    const left = until - performance.now();
    if (left <= 0) return false;
    await new Promise((resolve) => setTimeout(resolve, Math.min(left, LOOK_MS)));
  }
}

/**
 * Looks from another session who blocks this one, while it waits: it cannot ask itself, and afterwards it is too late.
 */
class BlockerWatch {
  seen: BlockingSession[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly runner: QueryRunner,
    private readonly lockTimeoutMs: number,
  ) {}

  async begin(): Promise<void> {
    const [row] = (await this.runner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
    // A look that fails, or finds the pool taken, costs the names in the error and nothing else.
    const look = (): void => void this.look(row!.pid).catch(() => undefined);
    this.timer = setTimeout(look, this.lockTimeoutMs / 2);
  }

  end(): void {
    clearTimeout(this.timer);
  }

  private async look(pid: number): Promise<void> {
    const { connection } = this.runner;
    const sessions = await connection.query<BlockingSession[]>(
      `SELECT b.pid, a.application_name AS "applicationName", a.state, a.query,
              extract(epoch FROM clock_timestamp() - a.xact_start)::integer AS "openForSeconds"
         FROM unnest(pg_blocking_pids($1)) AS b(pid)
              LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = b.pid
        ORDER BY a.xact_start NULLS LAST`,
      [pid],
    );
    if (sessions.length > 0) this.seen = sessions;
  }
}
