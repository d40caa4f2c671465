import { TIMES } from '../times.js';
import { type Fault, pause, target } from './fault.js';

/** SIGSTOP and SIGCONT: for less than the TTL, so that nobody may notice, or for more, so that its turns are taken over. */
export const freeze: Fault = {
  kind: 'freeze',
  weight: 4,
  hits: 'replica',
  draw: (random) => {
    const form = random.pick(['shorter than the TTL', 'longer than the TTL']);
    const short = form.startsWith('shorter');
    const forMs = short ? random.between(200, TIMES.ttl - 800) : random.between(TIMES.ttl + 500, 2 * TIMES.ttl + 1_000);
    return { forMs, form };
  },
  async apply({ cluster }, planned) {
    const replica = cluster.replica(target(planned));
    replica.signal('SIGSTOP');
    await pause(planned.forMs);
    replica.signal('SIGCONT');
  },
};
