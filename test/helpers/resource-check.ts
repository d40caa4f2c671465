import { createHook } from 'node:async_hooks';
import { sep } from 'node:path';
import type { DataSource } from 'typeorm';
import { pooledConnections, TEST_APPLICATION_NAME, type TestDatabase } from './database.js';
import { eventually } from '../../tools/harness/wait.js';

/** Things end a moment after the call that ends them: a backend when its socket has closed, a timer when it has run. */
const GRACE_MS = 2_000;

const LIBRARY = `${sep}libs${sep}a2a-cluster${sep}`;

/** For `afterEach`: every turn has ended, so no lease is left. */
export async function expectNoLease(database: TestDatabase): Promise<void> {
  const [table] = await database.query<{ name: string | null }>("SELECT to_regclass('a2a_task_leases') AS name");
  if (!table?.name) return;
  await eventually(
    async () => {
      const leases = await database.query('SELECT * FROM a2a_task_leases');
      expect(leases).toEqual([]);
      return true;
    },
    { timeoutMs: GRACE_MS },
  );
}

/**
 * For `afterAll`, when the apps and replicas have stopped: nobody is connected to the database any more but the test
 * itself and the pools it knows of, which are those of `database.dataSource()` and of `dataSources`. A heartbeat or
 * LISTEN connection that was not closed shows up here with its last statement.
 */
export async function expectNoConnection(
  database: TestDatabase,
  dataSources: readonly DataSource[] = [],
): Promise<void> {
  await eventually(
    async () => {
      const pooled = dataSources.reduce((sum, it) => sum + pooledConnections(it), database.pooledConnections);
      const connections = await database.query(
        'SELECT application_name, state, query FROM pg_stat_activity ' +
          "WHERE datname = $1 AND backend_type = 'client backend' AND application_name <> $2",
        [database.name, TEST_APPLICATION_NAME],
      );
      if (connections.length > pooled) expect(connections).toHaveLength(pooled);
      return true;
    },
    { timeoutMs: GRACE_MS },
  );
}

/** Timers made since {@link watchTimers}. */
export interface TimerWatch {
  /** For `afterAll`, when the apps of this process have stopped: no timer of the library is left. Ends the watch. */
  expectNone(): Promise<void>;
}

/**
 * Remembers where each timer is made, until it has run or was cleared. Called at the top of a test file that holds
 * Nest apps or parts of the library in its own process.
 *
 * `process.getActiveResourcesInfo()` could only count timers: Jest's own, pg-pool's idle ones and undici's among them,
 * and those that are unref'd not.
 */
export function watchTimers(): TimerWatch {
  const timers = new Map<number, Error>();
  const hook = createHook({
    init(asyncId, type) {
      if (type !== 'Timeout') return;
      const { stackTraceLimit } = Error;
      Error.stackTraceLimit = 30;
      timers.set(asyncId, new Error('timer'));
      Error.stackTraceLimit = stackTraceLimit;
    },
    destroy(asyncId) {
      timers.delete(asyncId);
    },
  }).enable();
  return {
    async expectNone() {
      try {
        await eventually(
          () => {
            expect([...timers.values()].map((made) => made.stack ?? '').filter(isLibrarys)).toEqual([]);
            return true;
          },
          { timeoutMs: GRACE_MS },
        );
      } finally {
        hook.disable();
      }
    },
  };
}

/** Made by the library's code, and not by pg on its behalf: a pool has its own. */
function isLibrarys(stack: string): boolean {
  const byLibrary = stack.split('\n').some((line) => line.includes(LIBRARY) && !line.includes('.spec.'));
  return byLibrary && !stack.includes(`${sep}node_modules${sep}pg`);
}

/** All of the above, for `afterAll`, when the apps and replicas have stopped. */
export async function expectNothingLeft(
  database: TestDatabase,
  { timers, dataSources = [] }: { timers?: TimerWatch; dataSources?: readonly DataSource[] } = {},
): Promise<void> {
  await expectNoLease(database);
  await expectNoConnection(database, dataSources);
  await timers?.expectNone();
}
