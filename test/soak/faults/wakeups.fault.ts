import { type Fault, target } from './fault.js';

/** The session over which a replica is woken by the others is ended. */
export const wakeups: Fault = {
  kind: 'wakeups',
  weight: 3,
  hits: 'replica',
  draw: () => ({ forMs: 0, form: '' }),
  async apply({ administrator }, planned) {
    await administrator.endSessions(target(planned), 'listening');
  },
};
