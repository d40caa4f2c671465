import { LimitStore } from '../contenders/limit.js';
import { limitTurn } from '../contenders/limit-turns.js';
import { startOurs } from '../contenders/ours.js';
import { startPeer } from '../contenders/peer.js';
import { atOnce, blockingTurn } from '../driver.js';
import type { Contender } from '../measurements.js';
import { interleaved } from '../rounds.js';
import type { Workload } from '../workload.js';

const ROUNDS = 5;
const TURNS = 1_000;
const AT_ONCE = 64;

/** W1: what a turn of three commits costs, under load. */
export const turns: Workload = {
  name: 'W1',
  title: `3-event turns, each event a commit, ${AT_ONCE} at once`,
  without: {},
  bounds: [
    { metric: 'turns', by: { contender: 'peer' }, atLeast: 3 },
    { metric: 'turns', by: { contender: 'limit' }, atLeast: 0.6 },
  ],
  charted: ['turns'],
  async run(environment, measured) {
    const ours = await startOurs(await environment.createClusterDatabase());
    const peer = await startPeer(await environment.createDatabase());
    const limit = new LimitStore(await environment.createClusterDatabase());
    const contenders: [Contender, () => Promise<void>][] = [
      ['ours', () => blockingTurn(ours.handler)],
      ['peer', () => blockingTurn(peer.handler)],
      ['limit', () => limitTurn(limit)],
    ];
    try {
      await interleaved(ROUNDS, contenders, measured, async ([contender, turn], record) => {
        const tookMs = await atOnce(TURNS, AT_ONCE, turn);
        record(contender, 'turns', 'turns/s', TURNS / (tookMs / 1_000));
      });
    } finally {
      await Promise.all([ours.close(), peer.close(), limit.close()]);
    }
  },
};
