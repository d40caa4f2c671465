import { expect } from './expect.js';
import { describeExit } from '../harness/replica-process.js';
import type { Replica } from './replica.js';
import { since, type Story } from './story.js';
import { reExecutionBoundMs } from './times.js';

/** Kills a replica in the middle of its turn, and answers when, by `performance.now()`. */
export async function kill({ name, process }: Replica, story: Story): Promise<number> {
  process.signal('SIGKILL');
  const killedAt = performance.now();
  story.tell(name, `process ${process.pid}: ${describeExit(await process.exited)}; its lease has to run out …`);
  return killedAt;
}

/**
 * Waits until one of these replicas has begun the second attempt at a task whose replica was lost at `lostAt`, and
 * answers after how many milliseconds that was.
 */
export async function secondAttempt(
  replicas: readonly Replica[],
  taskId: string,
  lostAt: number,
  story: Story,
): Promise<number> {
  const said = new RegExp(`^task ${taskId}: attempt 2$`);
  const name = await Promise.any(replicas.map((replica) => replica.line(said).then(() => replica.name)));
  const ms = Math.round(since(lostAt));
  const bound = reExecutionBoundMs(2);
  expect(ms <= bound, `attempt 2 began after ${ms} ms; the bound is ${bound} ms`);
  story.tell(name, `runs the turn again: attempt 2 (bound: ${bound} ms)`, ms);
  return ms;
}
