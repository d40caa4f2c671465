import { TIMES } from '../times.js';
import { type Fault, target } from './fault.js';

/** A request that kills the process that runs it, as often as it is run. */
export const lethalRequest: Fault = {
  ...{ kind: 'lethal-request', weight: 1, hits: 'replica' },
  draw: () => ({ forMs: 0, form: '' }),
  apply: ({ clients }, planned) => clients.lethalRequest(target(planned)),
};

/** A request that blocks the event loop of the process that runs it. */
export const blockingRequest: Fault = {
  ...{ kind: 'blocking-request', weight: 1, hits: 'replica' },
  draw: (random) => ({ forMs: random.between(500, TIMES.ttl + 1_000), form: '' }),
  apply: ({ clients }, planned) => clients.blockingRequest(target(planned), planned.forMs),
};
