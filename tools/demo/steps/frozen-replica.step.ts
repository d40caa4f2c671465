import { TaskState } from '@a2a-js/sdk';
import { expect, within } from '../expect.js';
import type { Step } from '../stage.js';
import { since } from '../story.js';
import { RECOVERY_BOUND_MS, TIMES } from '../times.js';
import { stateName } from '../watcher.js';

/** A replica freezes past its TTL and thaws: what was decided without it stands. */
export const frozenReplica: Step = async ({ b, c, log, story }) => {
  story.begin('A frozen replica: B is stopped in the middle of "work 5", past its TTL');
  const sender = b.client.stream('work 5');
  const { taskId } = await sender.first('the task', () => true);
  const watcher = await c.client.subscribe(taskId);
  await watcher.first('work', ({ kind }) => kind === 'statusUpdate');

  b.process.signal('SIGSTOP');
  const frozenAt = performance.now();
  story.tell('B', `SIGSTOP; its TTL is ${TIMES.ttl} ms …`);
  const failed = await watcher.end(TaskState.TASK_STATE_FAILED);
  const freezeToFailedMs = failed.at - frozenAt;
  expect(freezeToFailedMs <= RECOVERY_BOUND_MS, `FAILED came after ${freezeToFailedMs} ms, not ${RECOVERY_BOUND_MS}`);
  story.tell(watcher.who, 'FAILED', freezeToFailedMs);
  const before = await log.position(taskId);

  b.process.signal('SIGCONT');
  const thawedAt = performance.now();
  story.tell('B', 'SIGCONT');
  const aborted = await b.line(new RegExp(`^task ${taskId}: signal aborted: `));
  expect(aborted.endsWith(': A2A_LEASE_LOST'), `B's executor saw another reason: ${aborted}`);
  story.tell('B', 'its executor saw its signal abort: A2A_LEASE_LOST', since(thawedAt));
  const late = await b.line(new RegExp(`^task ${taskId}: late event `));
  expect(late.includes(': late event refused'), `what B published late was not refused: ${late}`);
  story.tell('B', 'what it published then was refused', since(thawedAt));

  // B is heard to the end of its turn: its sender's stream is over, and it answers as the others do.
  await within("the end of B's own stream", sender.over);
  const states = sender.seen.map(({ state }) => state);
  expect(!states.includes(TaskState.TASK_STATE_COMPLETED), `${sender.who} saw COMPLETED`);
  story.tell(sender.who, sender.summary());
  for (const { client } of [b, c]) {
    const state = (await client.task(taskId)).status?.state;
    expect(state === TaskState.TASK_STATE_FAILED, `GetTask at ${client.replica} says ${stateName(state)}`);
  }
  const after = await log.position(taskId);
  const unchanged = after.version === before.version && after.events === before.events;
  expect(unchanged, `the task changed after FAILED: ${JSON.stringify({ before, after })}`);
  story.tell(
    'log',
    `version ${after.version} with ${after.events} events, before SIGCONT and after; B and C say FAILED`,
  );
  return { freezeToFailedMs: Math.round(freezeToFailedMs), ...after };
};
