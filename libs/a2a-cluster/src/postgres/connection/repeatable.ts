import { DatabaseOverloadedError } from '../../errors/database-overloaded.error.js';
import { DatabaseTimeoutError } from '../../errors/database-timeout.error.js';
import type { ClusterDatabase } from './cluster-database.js';
import type { Statement } from './statement.js';
import { isPassing, sqlState } from './database-errors.js';
import { Backoff } from '../../async/backoff.js';

const STATEMENT_TIMEOUT = '57014';

/**
 * Runs what may be run twice, such as a read, again and again while it fails in passing: a server that restarts or fails
 * over ends or refuses connections for a moment. All runs together take no longer than one may. One that took all of its
 * time is not repeated, and nothing is once the app closes.
 */
export async function untilAnswered<T>(
  { maxTimeoutMs, closing }: ClusterDatabase,
  run: (timeoutMs: number) => Promise<T>,
): Promise<T> {
  const giveUpAt = performance.now() + maxTimeoutMs;
  const backoff = new Backoff();
  for (let leftMs = maxTimeoutMs; ; leftMs = giveUpAt - performance.now()) {
    try {
      return await run(leftMs);
    } catch (error) {
      const tookItsTime = error instanceof DatabaseTimeoutError || sqlState(error) === STATEMENT_TIMEOUT;
      // One that was refused since too many wait would only wait with them.
      if (tookItsTime || error instanceof DatabaseOverloadedError || !isPassing(error) || closing.signal.aborted)
        throw error;
      await backoff.pause();
      if (performance.now() >= giveUpAt || closing.signal.aborted) throw error;
    }
  }
}

/** Runs a statement that only reads, in the lane of reads, again and again while it fails in passing. */
export const readRepeatedly = <Params extends object, Row extends object>(
  database: ClusterDatabase,
  statement: Statement<Params, Row>,
  params: Params,
): Promise<Row[]> =>
  untilAnswered(database, (timeoutMs) => statement.run(database, params, { timeoutMs, lane: 'read' }));
