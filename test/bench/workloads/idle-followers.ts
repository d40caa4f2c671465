import { runProcess } from '../processes/run-process.js';
import type { IdleReplica } from '../processes/idle-replica.process.js';
import { seedTasks } from '../seed.js';
import type { Workload } from '../workload.js';

const FOLLOWERS = [0, 1_000, 10_000] as const;

/** W6: what a replica does and keeps where nothing happens. */
export const idleFollowers: Workload = {
  name: 'W6',
  title: `an idle replica with ${FOLLOWERS.map((it) => it.toLocaleString('en-US')).join(' / ')} followers of others' tasks`,
  without: { peer: 'it cannot follow what another replica runs', limit: 'nothing has to be done' },
  bounds: [
    ...FOLLOWERS.map((followers) => ({ metric: statementsWith(followers), atMost: 2, unit: '/s' })),
    ...FOLLOWERS.filter((it) => it > 0).map((it) => ({ metric: heapWith(it), atMost: 10, unit: 'kB' })),
  ],
  charted: [],
  async run(environment, measured) {
    const url = await environment.createClusterDatabase();
    await seedTasks(url, { tasks: Math.max(...FOLLOWERS) });
    for (const followers of FOLLOWERS) {
      const { statementsPerSecond, heapBytes } = await runProcess<IdleReplica>('idle-replica', { url, followers });
      for (const rate of statementsPerSecond) measured.record('ours', statementsWith(followers), '/s', rate);
      if (followers > 0) measured.record('ours', heapWith(followers), 'kB', heapBytes / followers / 1_000);
    }
  },
};

function statementsWith(followers: number): string {
  return `statements with ${followers.toLocaleString('en-US')} followers`;
}

function heapWith(followers: number): string {
  return `heap of each of ${followers.toLocaleString('en-US')}`;
}
