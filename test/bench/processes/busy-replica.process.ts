import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { callContext, sendRequest } from '../agent/messages.js';
import { type OursOptions, startOurs } from '../contenders/ours.js';
import { atOnce } from '../driver.js';
import { withClient } from '../environment.js';
import { answerParent } from './run-process.js';

export interface BusyReplica {
  delayP99Ms: number;
  rssMB: number;
  /** Events stored while it was measured. */
  events: number;
}

interface Input {
  url: string;
  turns: number;
  publishing: number;
  everyMs: number;
  seconds: number;
  leases: NonNullable<OursOptions['leases']>;
}

await answerParent(async (input: Input): Promise<BusyReplica> => {
  const { url, turns, publishing, everyMs, seconds, leases } = input;
  const replica = await startOurs(url, { leases });
  try {
    let begun = 0;
    await atOnce(turns, 32, async () => {
      const text = (begun += 1) <= publishing ? `busy ${everyMs} 200` : 'hold';
      await replica.handler.sendMessage(sendRequest(text, { returnImmediately: true }), callContext());
    });
    const before = await countOf(url, 'a2a_task_events');
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    let rss = 0;
    for (let second = 0; second < seconds; second += 1) {
      await pause(1_000);
      rss = Math.max(rss, process.memoryUsage.rss());
    }
    delay.disable();
    const events = (await countOf(url, 'a2a_task_events')) - before;
    replica.release();
    // A turn whose lease was lost has ended as well, but not as COMPLETED.
    while ((await countOf(url, `a2a_tasks WHERE state = 'TASK_STATE_WORKING'`)) > 0) await pause(100);
    return { delayP99Ms: delay.percentile(99) / 1e6, rssMB: rss / 2 ** 20, events };
  } finally {
    await replica.close();
  }
});

function countOf(url: string, what: string): Promise<number> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ count: string }>(`SELECT count(*) FROM ${what}`);
    return Number(rows[0]!.count);
  });
}
