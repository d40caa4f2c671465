import { type Fault } from './fault.js';

/** The database server is stopped, and comes back on the same files. */
export const databaseRestart: Fault = {
  kind: 'database-restart',
  weight: 2,
  hits: 'database',
  draw: (random) => ({ forMs: random.between(0, 1_500), form: random.pick(['fast', 'immediate']) }),
  apply: ({ database }, { form, forMs }) => database.restart(form === 'fast' ? 'fast' : 'immediate', forMs),
};
