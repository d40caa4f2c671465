import { TIMES } from '../times.js';
import { type Fault, pause } from './fault.js';

/** All processes of the database stand still, for longer than the TTL. */
export const databaseFreeze: Fault = {
  kind: 'database-freeze',
  weight: 2,
  hits: 'database',
  draw: (random) => ({ forMs: random.between(TIMES.ttl + 300, TIMES.ttl + 2_000), form: '' }),
  async apply({ database }, { forMs }) {
    await database.freeze();
    try {
      await pause(forMs);
    } finally {
      await database.thaw();
    }
  },
};
