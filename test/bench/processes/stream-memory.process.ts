import { startOurs } from '../contenders/ours.js';
import { readStream } from '../driver.js';
import { answerParent, liveHeapMB } from './run-process.js';

export type StreamMemory = { length: number; peakLiveMB: number }[];

const SAMPLE_MS = 100;

interface Input {
  url: string;
  lengths: number[];
  bytes: number;
}

/** The largest live heap while one stream of each length runs, above that before any of them. */
await answerParent(async ({ url, lengths, bytes }: Input): Promise<StreamMemory> => {
  const ours = await startOurs(url);
  try {
    for (const length of lengths) await readStream(ours.handler, length, bytes);
    const base = liveHeapMB();
    const peaks: StreamMemory = [];
    for (const length of lengths) {
      let peak = 0;
      const sample = (): void => void (peak = Math.max(peak, liveHeapMB()));
      const timer = setInterval(sample, SAMPLE_MS);
      await readStream(ours.handler, length, bytes);
      clearInterval(timer);
      sample();
      peaks.push({ length, peakLiveMB: peak - base });
    }
    return peaks;
  } finally {
    await ours.close();
  }
});
