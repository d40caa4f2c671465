import { withClient } from '../environment.js';
import type { BusyReplica } from '../processes/busy-replica.process.js';
import { runProcess } from '../processes/run-process.js';
import type { Workload } from '../workload.js';

const TURNS = 1_000;
const PUBLISHING = 64;
const EVERY_MS = 100;
const SECONDS = 30;
/** Six rounds in the time, and no two of them may be missed. */
const LEASES = { heartbeatIntervalMs: 5_000, ttlMs: 15_000 };

/** W7: one replica with many turns that take their time. */
export const manyTurns: Workload = {
  name: 'W7',
  title: `${TURNS.toLocaleString('en-US')} turns at once for ${SECONDS} s, ${PUBLISHING} of them publishing every ${EVERY_MS} ms`,
  without: { peer: 'it has no leases', limit: 'there is no agent to run' },
  bounds: [
    { metric: 'lost leases', atMost: 0 },
    { metric: 'event loop delay p99', atMost: 50, unit: 'ms' },
  ],
  charted: [],
  async run(environment, measured) {
    const url = await environment.createClusterDatabase();
    const input = { url, turns: TURNS, publishing: PUBLISHING, everyMs: EVERY_MS, seconds: SECONDS, leases: LEASES };
    const { delayP99Ms, rssMB, events } = await runProcess<BusyReplica>('busy-replica', input);
    const completed = await withClient(url, async (client) => {
      const { rows } = await client.query<{ count: string }>(
        `SELECT count(*) FROM a2a_tasks WHERE state = 'TASK_STATE_COMPLETED'`,
      );
      return Number(rows[0]!.count);
    });
    measured.record('ours', 'lost leases', '', TURNS - completed);
    measured.record('ours', 'event loop delay p99', 'ms', delayP99Ms);
    measured.record('ours', 'resident memory', 'MB', rssMB);
    measured.record('ours', 'events stored', '/s', events / SECONDS);
  },
};
