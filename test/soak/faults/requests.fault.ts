import { TIMES } from '../times.js';
import { type Fault, target } from './fault.js';

/** How long a statement may take at most. */
const STATEMENT_MS = 2_000;

/** A request that kills the process that runs it, as often as it is run. */
export const lethalRequest: Fault = {
  kind: 'lethal-request',
  weight: 1.5,
  hits: 'replica',
  draw: () => ({ forMs: 0, form: '' }),
  apply: ({ clients }, planned) => clients.lethalRequest(target(planned)),
};

/**
 * A request that blocks the event loop of the process that runs it, for less or for more than a statement may take. Others
 * send and ask there at that moment: their answers from the database come while nobody reads them.
 */
export const blockingRequest: Fault = {
  kind: 'blocking-request',
  weight: 2,
  hits: 'replica',
  draw: (random) => {
    const [least, most] = random.pick([[500, STATEMENT_MS] as const, [STATEMENT_MS + 100, TIMES.ttl + 1_500] as const]);
    return { forMs: random.between(least, most), form: '' };
  },
  apply: ({ clients }, planned) => clients.blockingRequest(target(planned), planned.forMs),
};
