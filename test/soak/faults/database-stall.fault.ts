import { PipelinedReads } from '../../../tools/harness/pipelined-reads.js';
import { TIMES } from '../times.js';
import { type Fault, pause } from './fault.js';

/** The longest time-outs: for a connection (the sample's), and for a statement. */
const CONNECT_MS = 5_000;
const STATEMENT_MS = 2_000;
const LONGEST_MS = Math.max(CONNECT_MS, STATEMENT_MS, TIMES.ttl);

/** The reads come in so many steps, spread over the stall. */
const STEPS = 40;
const KNOWN_TASKS = 200;

/** Whoever still waits when it is over hangs up so much later. */
const PATIENCE_MS = 1_000;

/**
 * All processes of the database stand still for longer than any time-out, while clients read by the thousand at every
 * replica. What they are answered is of no matter; that the replicas live, and go on, is.
 */
export const databaseStall: Fault = {
  kind: 'database-stall',
  weight: 2,
  hits: 'database',
  draw: (random) => ({
    forMs: random.between(LONGEST_MS + 500, LONGEST_MS + 4_000),
    form: `${100 * random.between(5, 40)} reads at each replica`,
  }),
  async apply({ cluster, database, administrator }, { forMs, form }) {
    const reads = Number.parseInt(form, 10);
    const tasks = await administrator.tasks(KNOWN_TASKS);
    const readers = cluster.replicas.map(({ settings }) => new PipelinedReads(settings.url, tasks));
    await database.freeze();
    try {
      for (let step = 0; step < STEPS; step += 1) {
        for (const reader of readers) reader.ask(Math.ceil(reads / STEPS));
        await pause(forMs / STEPS);
      }
    } finally {
      await database.thaw();
    }
    await pause(PATIENCE_MS);
    for (const reader of readers) reader.close();
    return readers.map(({ answers }) => JSON.stringify(answers)).join(' ');
  },
};
