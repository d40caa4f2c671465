import { TIMES } from '../times.js';
import { type Fault, pause, type PlannedFault, type Stage, target } from './fault.js';

const network = ({ cluster }: Stage, planned: PlannedFault) => cluster.network(target(planned));

/** Each packet between a replica and the database takes longer. */
export const delay: Fault = {
  kind: 'network-delay',
  weight: 2,
  hits: 'network',
  draw: (random) => ({ forMs: random.between(2_000, 6_000), form: String(random.between(20, 250)) }),
  async apply(stage, planned) {
    await network(stage, planned).flow({ kind: 'delay', ms: Number(planned.form) });
    await pause(planned.forMs);
    await network(stage, planned).heal();
  },
};

/** Nothing comes through, and nobody is told; what was sent arrives when it is over. */
export const blackHole: Fault = {
  kind: 'network-black-hole',
  weight: 2,
  hits: 'network',
  // Often just as long as it takes that a lease is claimed: what arrives then comes from the holder before.
  draw: (random) => {
    const [least, most] = random.pick([[500, 2 * TIMES.ttl] as const, [TIMES.ttl, TIMES.ttl + 700] as const]);
    return { forMs: random.between(least, most), form: '' };
  },
  async apply(stage, planned) {
    await network(stage, planned).flow({ kind: 'hold' });
    await pause(planned.forMs);
    await network(stage, planned).heal();
  },
};

/** One direction is gone, the other works; then the connections are reset, since bytes are missing in them. */
export const halfOpen: Fault = {
  kind: 'network-half-open',
  weight: 2,
  hits: 'network',
  draw: (random) => ({ forMs: random.between(500, 2 * TIMES.ttl), form: random.pick(['toServer', 'toClient']) }),
  async apply(stage, planned) {
    await network(stage, planned).flow({ kind: 'swallow' }, [planned.form === 'toServer' ? 'toServer' : 'toClient']);
    await pause(planned.forMs);
    await network(stage, planned).heal();
    await network(stage, planned).cut();
  },
};

/** All connections of a replica to the database are reset. */
export const cut: Fault = {
  kind: 'network-cut',
  weight: 2,
  hits: 'network',
  draw: () => ({ forMs: 0, form: '' }),
  async apply(stage, planned) {
    await network(stage, planned).cut();
  },
};
