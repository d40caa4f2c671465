import { type Fault, target } from './fault.js';

/** SIGTERM, which the replica obeys in order, and a new process. */
export const terminate: Fault = {
  kind: 'terminate',
  weight: 3,
  hits: 'replica',
  draw: () => ({ forMs: 0, form: '' }),
  apply: ({ cluster }, planned) => cluster.replica(target(planned)).replace('SIGTERM'),
};
