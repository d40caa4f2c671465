import { type Fault, pause, target } from './fault.js';

/**
 * SIGTERM while the database stands still. It goes on when the process has ended, or would have had to: the end of a
 * replica must not hang on it.
 */
export const databaseStallTerminate: Fault = {
  kind: 'database-stall-terminate',
  weight: 2,
  hits: 'database and replica',
  draw: (random) => ({ forMs: random.between(0, 2_000), form: '' }),
  async apply({ cluster, database }, planned) {
    const replica = cluster.replica(target(planned));
    await database.freeze();
    try {
      await pause(planned.forMs);
      await replica.end('SIGTERM');
    } finally {
      await database.thaw();
    }
  },
};
