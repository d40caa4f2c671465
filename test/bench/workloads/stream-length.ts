import { LimitStore } from '../contenders/limit.js';
import { limitStream } from '../contenders/limit-turns.js';
import { startOurs } from '../contenders/ours.js';
import { startPeer } from '../contenders/peer.js';
import { atOnce, readStream } from '../driver.js';
import type { Contender, Record } from '../measurements.js';
import { runProcess } from '../processes/run-process.js';
import { interleaved } from '../rounds.js';
import { largestDeviation } from '../statistics.js';
import type { Workload } from '../workload.js';
import type { StreamMemory } from '../processes/stream-memory.process.js';

const ROUNDS = 3;
const BYTES = 200;
const LENGTHS = [100, 1_000, 10_000] as const;
/** What a round streams in each length, so that short streams are measured as long as long ones. */
const EVENTS = 10_000;
/** Its cost grows with the square: at 10,000 chunks a single stream of the peer takes minutes. */
const PEER_LENGTHS = LENGTHS.slice(0, 2);

/** W3: whether an event of a long stream costs more than one of a short stream, and what a long one keeps in memory. */
export const streamLength: Workload = {
  name: 'W3',
  title: `one stream of ${LENGTHS.map((length) => length.toLocaleString('en-US')).join(', ')} chunks of ${BYTES} bytes`,
  without: { peer: `not run at 10,000 chunks: each of its saves writes the whole task` },
  bounds: [
    { metric: 'deviation of the costs from their mean', atMost: 30, unit: '%' },
    { metric: 'live heap, 10,000 above 100 chunks', atMost: 20, unit: 'MB' },
  ],
  charted: LENGTHS.map(costAt),
  async run(environment, measured) {
    const ours = await startOurs(await environment.createClusterDatabase());
    const peer = await startPeer(await environment.createDatabase());
    const limit = new LimitStore(await environment.createClusterDatabase());
    const measure = async (contender: Contender, record: Record, lengths: readonly number[], stream: Streamer) => {
      const costs: number[] = [];
      for (const length of lengths) {
        const times = Math.max(1, (contender === 'peer' ? 1_000 : EVENTS) / length);
        const tookMs = await atOnce(times, 1, () => stream(length));
        costs.push((tookMs * 1_000) / (times * (length + 2)));
        record(contender, costAt(length), 'µs', costs.at(-1)!);
      }
      return costs;
    };
    type Streamer = (length: number) => Promise<void>;
    const contenders: [Contender, readonly number[], Streamer][] = [
      ['ours', LENGTHS, (length) => readStream(ours.handler, length, BYTES)],
      ['limit', LENGTHS, (length) => limitStream(limit, length, BYTES)],
    ];
    try {
      await interleaved(ROUNDS, contenders, measured, async ([contender, lengths, stream], record) => {
        const costs = await measure(contender, record, lengths, stream);
        record(contender, 'deviation of the costs from their mean', '%', 100 * largestDeviation(costs));
      });
      // No bound speaks of it, and a second round would take as long as all of the others'.
      await measure('peer', measured.record, PEER_LENGTHS, (length) => readStream(peer.handler, length, BYTES));
    } finally {
      await Promise.all([ours.close(), peer.close(), limit.close()]);
    }
    const url = await environment.createClusterDatabase();
    const heaps = await runProcess<StreamMemory>('stream-memory', { url, lengths: LENGTHS, bytes: BYTES });
    for (const { length, peakLiveMB } of heaps)
      measured.record('ours', `live heap at ${length} chunks`, 'MB', peakLiveMB);
    const grown = heaps.at(-1)!.peakLiveMB - heaps[0]!.peakLiveMB;
    measured.record('ours', 'live heap, 10,000 above 100 chunks', 'MB', grown);
  },
};

function costAt(length: number): string {
  return `cost of an event at ${length.toLocaleString('en-US')}`;
}
