import { callContext, subscription } from '../agent/messages.js';
import { monotonicMs } from '../agent/script.js';
import { type OursOptions, startOurs } from '../contenders/ours.js';
import { quantile } from '../statistics.js';
import { answerParent } from './run-process.js';

export interface FollowerLag {
  deliveries: number;
  p50Ms: number;
  p99Ms: number;
}

interface Input {
  url: string;
  streams: NonNullable<OursOptions['streams']>;
  taskId: string;
  followers: number;
}

/** Replica B: follows a task of another replica, and says how old the events were when they arrived. */
await answerParent(async ({ url, streams, taskId, followers }: Input, ready): Promise<FollowerLag> => {
  const b = await startOurs(url, { streams });
  const lags: number[] = [];
  let opened = 0;
  const follow = async (): Promise<void> => {
    for await (const { payload } of b.handler.resubscribe(subscription(taskId), callContext())) {
      if (payload?.$case === 'task' && (opened += 1) === followers) ready();
      if (payload?.$case !== 'artifactUpdate') continue;
      lags.push(monotonicMs() - Number(payload.value.metadata?.publishedAt));
    }
  };
  try {
    await Promise.all(Array.from({ length: followers }, follow));
    return { deliveries: lags.length, p50Ms: quantile(lags, 0.5), p99Ms: quantile(lags, 0.99) };
  } finally {
    await b.close();
  }
});
