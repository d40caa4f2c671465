import { setTimeout as pause } from 'node:timers/promises';
import { callContext, subscription } from '../agent/messages.js';
import { startOurs } from '../contenders/ours.js';
import { atOnce } from '../driver.js';
import { seededId } from '../seed.js';
import { StatementCounter } from '../statement-counter.js';
import { answerParent, liveHeapMB } from './run-process.js';

export interface IdleReplica {
  statementsPerSecond: number[];
  /** What the followers have added to the live heap. */
  heapBytes: number;
}

const WINDOWS = 3;
const WINDOW_MS = 5_000;

/** Follows tasks that another replica runs and says nothing of, with all options at their defaults. */
await answerParent(async ({ url, followers }: { url: string; followers: number }): Promise<IdleReplica> => {
  const counter = new StatementCounter();
  const replica = await startOurs(url);
  const streams: AsyncGenerator[] = [];
  const open = async (n: number): Promise<void> => {
    const stream = replica.handler.resubscribe(subscription(seededId(n)), callContext());
    const { done } = await stream.next();
    if (done) throw new Error('The stream has ended');
    streams.push(stream);
  };
  const next: Promise<unknown>[] = [];
  try {
    const before = liveHeapMB();
    let opened = 0;
    await atOnce(followers, 32, () => open((opened += 1)));
    next.push(...streams.map((stream) => stream.next()));
    await untilQuiet(counter);
    const heapBytes = (liveHeapMB() - before) * 2 ** 20;
    const statementsPerSecond: number[] = [];
    for (let window = 0; window < WINDOWS; window += 1) {
      counter.take();
      await pause(WINDOW_MS);
      statementsPerSecond.push(counter.take() / (WINDOW_MS / 1_000));
    }
    return { statementsPerSecond, heapBytes };
  } finally {
    await replica.close(); // which ends the streams
    await Promise.all(next);
  }
});

/** Followers look once into the log before they wait: until that is over, statements come by the hundred. */
async function untilQuiet(counter: StatementCounter): Promise<void> {
  do {
    counter.take();
    await pause(1_000);
  } while (counter.take() > 10);
}
