import { type Fault, target } from './fault.js';

/** All sessions of one replica are ended by the database. */
export const backends: Fault = {
  kind: 'backends',
  weight: 3,
  hits: 'replica',
  draw: () => ({ forMs: 0, form: '' }),
  async apply({ administrator }, planned) {
    await administrator.endSessions(target(planned));
  },
};
