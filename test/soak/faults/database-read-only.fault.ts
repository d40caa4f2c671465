import { type Fault, pause } from './fault.js';

/**
 * All sessions of the replicas are ended, and those that they begin for a while are read-only, as in a failover. Such a
 * session stays read-only after that: whoever keeps one can store nothing with it.
 */
export const databaseReadOnly: Fault = {
  kind: 'database-read-only',
  weight: 2,
  hits: 'database',
  draw: (random) => ({ forMs: random.between(500, 3_000), form: '' }),
  async apply({ administrator }, { forMs }) {
    try {
      await administrator.restrict('default_transaction_read_only', 'on');
      await administrator.endSessions();
      await pause(forMs);
    } finally {
      await administrator.lift();
    }
  },
};
