import { type Fault, target } from './fault.js';

/** A subscriber that does not read for a while, and then does. */
export const slowSubscriber: Fault = {
  kind: 'slow-subscriber',
  weight: 2,
  hits: 'clients',
  draw: (random) => ({ forMs: random.between(1_000, 4_000), form: '' }),
  apply: ({ clients }, planned) => clients.slowSubscriber(target(planned), planned.forMs),
};

/** Subscribers that are gone without a word in the middle of a stream. */
export const vanishingSubscriber: Fault = {
  kind: 'vanishing-subscriber',
  weight: 2,
  hits: 'clients',
  draw: (random) => ({ forMs: random.between(50, 1_500), form: '' }),
  apply: ({ clients }, planned) => clients.vanishingSubscribers(target(planned), planned.forMs),
};
