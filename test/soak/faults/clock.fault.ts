import { type Fault, target } from './fault.js';

const MINUTE_MS = 60_000;

/** The wall clock of one replica steps, by minutes in either direction; it stays so until the next step or restart. */
export const clock: Fault = {
  kind: 'clock',
  weight: 2,
  hits: 'replica',
  draw: (random) => {
    const minutes = random.between(1, 30) * random.pick([-1, 1]);
    return { forMs: 0, form: String(minutes) };
  },
  apply({ cluster }, planned) {
    cluster.replica(target(planned)).tell({ clockOffsetMs: Number(planned.form) * MINUTE_MS });
    return Promise.resolve();
  },
};
