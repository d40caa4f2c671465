import type { Pool, PoolClient, QueryConfig, QueryResult } from 'pg';
import { DatabaseTimeoutError } from '../errors/database-timeout.error.js';
import { destroySocket } from './dedicated-connection.js';

type Connect = (taken: Parameters<Pool['connect']>[0]) => void;

/**
 * One statement in a connection of the pool, as one step for whoever waits: the commits of all turns go this way. Where
 * it takes longer than `timeoutMs`, the wait for a connection included, its connection is destroyed and not used again.
 */
export function runSingleStatement<R extends object>(
  connect: Connect,
  statement: QueryConfig,
  timeoutMs: number,
): Promise<R[]> {
  return new Promise((resolve, reject) => {
    let client: PoolClient | undefined;
    let givenUp: DatabaseTimeoutError | undefined;
    const giveUp = (): void => {
      givenUp = new DatabaseTimeoutError(timeoutMs);
      // One that comes too late was never used: it goes back to the pool as it is.
      if (client) destroySocket(client);
      reject(givenUp);
    };
    const timer = Number.isFinite(timeoutMs) ? setTimeout(giveUp, Math.max(0, timeoutMs)) : undefined;
    connect((error, taken, release) => {
      if (error || !taken) {
        clearTimeout(timer);
        return reject(error ?? new Error('The pool gave no connection.'));
      }
      if (givenUp) return release();
      client = taken;
      taken.query(statement, (failure: Error | undefined, result: QueryResult<R>) => {
        clearTimeout(timer);
        release(givenUp);
        if (failure) reject(failure);
        else resolve(result.rows);
      });
    });
  });
}
