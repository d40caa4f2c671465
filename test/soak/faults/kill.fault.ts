import { type Fault, target } from './fault.js';

/** SIGKILL, and a new process. */
export const kill: Fault = {
  kind: 'kill',
  weight: 4,
  hits: 'replica',
  draw: () => ({ forMs: 0, form: '' }),
  apply: ({ cluster }, planned) => cluster.replica(target(planned)).replace('SIGKILL'),
};
