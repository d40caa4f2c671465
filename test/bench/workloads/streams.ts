import { LimitStore } from '../contenders/limit.js';
import { limitStream } from '../contenders/limit-turns.js';
import { startOurs } from '../contenders/ours.js';
import { startPeer } from '../contenders/peer.js';
import { atOnce, readStream } from '../driver.js';
import type { Contender } from '../measurements.js';
import { interleaved } from '../rounds.js';
import type { Workload } from '../workload.js';

const ROUNDS = 3;
const CHUNKS = 500;
const BYTES = 200;
const AT_ONCE = 8;

/** W2: events per second where several agents stream as fast as they can. */
export const streams: Workload = {
  name: 'W2',
  title: `streams of ${CHUNKS} chunks of ${BYTES} bytes, ${AT_ONCE} at once, read to the end`,
  without: {},
  bounds: [
    { metric: 'events', by: { contender: 'peer' }, atLeast: 50 },
    { metric: 'events', by: { contender: 'limit' }, atLeast: 0.3 },
  ],
  charted: ['events'],
  async run(environment, measured) {
    const ours = await startOurs(await environment.createClusterDatabase());
    const peer = await startPeer(await environment.createDatabase());
    const limit = new LimitStore(await environment.createClusterDatabase());
    // The slower one gets fewer streams, so that a round is not all its own.
    const contenders: [Contender, number, () => Promise<void>][] = [
      ['ours', 8 * AT_ONCE, () => readStream(ours.handler, CHUNKS, BYTES)],
      ['peer', AT_ONCE, () => readStream(peer.handler, CHUNKS, BYTES)],
      ['limit', 8 * AT_ONCE, () => limitStream(limit, CHUNKS, BYTES)],
    ];
    try {
      await interleaved(ROUNDS, contenders, measured, async ([contender, times, stream], record) => {
        const tookMs = await atOnce(times, AT_ONCE, stream);
        record(contender, 'events', 'events/s', (times * (CHUNKS + 2)) / (tookMs / 1_000));
      });
    } finally {
      await Promise.all([ours.close(), peer.close(), limit.close()]);
    }
  },
};
