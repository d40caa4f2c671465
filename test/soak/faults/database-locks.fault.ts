import { LOCKABLE } from '../cluster/administrator.js';
import { TIMES } from '../times.js';
import type { Fault } from './fault.js';

/**
 * A table is locked, for less or for more than the TTL: statements wait in the server, and do not notice that who sent
 * them has given up. How many sessions the replicas have meanwhile is written down.
 */
export const databaseLocks: Fault = {
  kind: 'database-locks',
  weight: 2,
  hits: 'database',
  draw: (random) => {
    const [least, most] = random.pick([[300, TIMES.ttl - 300] as const, [TIMES.ttl + 500, 4 * TIMES.ttl] as const]);
    return { forMs: random.between(least, most), form: random.pick(LOCKABLE) };
  },
  async apply({ administrator, recorder }, { forMs, form }) {
    await administrator.lockTable(form, forMs, (sessions) => recorder.write({ kind: 'sessions', sessions }));
  },
};
