import { TaskState } from '@a2a-js/sdk';
import { textOf } from '../../harness/text.js';
import { expect } from '../expect.js';
import type { Step } from '../stage.js';
import { since } from '../story.js';
import { stateName } from '../watcher.js';

/** A question asked at one replica is answered at another; who subscribed at the start sees both turns. */
export const twoTurns: Step = async ({ b, c, story }) => {
  story.begin('Two turns: B works and asks, the answer goes to C');
  const start = performance.now();
  const sender = b.client.stream('work 1\nask which colour?');
  const { taskId } = await sender.first('the task', () => true);
  const watchers = await Promise.all([b.client.subscribe(taskId), c.client.subscribe(taskId)]);
  for (const { who, seen } of watchers) {
    const state = seen[0]?.state;
    expect(state === TaskState.TASK_STATE_WORKING, `${who} came too late for the first turn: ${stateName(state)}`);
  }
  const question = await sender.end(TaskState.TASK_STATE_INPUT_REQUIRED);
  story.tell(sender.who, `INPUT_REQUIRED: "${question.text}"`, question.at - start);

  const sentAt = performance.now();
  const answer = await c.client.followUp('blue', taskId);
  const state = 'status' in answer ? answer.status?.state : undefined;
  expect(state === TaskState.TASK_STATE_COMPLETED, `the follow-up at C ended with ${stateName(state)}`);
  const text = 'status' in answer ? textOf(answer.status?.message) : '';
  const followUpMs = since(sentAt);
  story.tell('C sender', `"blue" completes it: "${text}"`, followUpMs);

  for (const watcher of watchers) {
    const end = await watcher.end(TaskState.TASK_STATE_COMPLETED);
    const sawQuestion = watcher.seen.some((seen) => seen.state === TaskState.TASK_STATE_INPUT_REQUIRED);
    expect(sawQuestion && end.text === 'blue', `${watcher.who} did not see both turns: ${watcher.summary()}`);
    story.tell(watcher.who, `both turns, in one stream: ${watcher.summary()}`);
  }
  return { followUpMs: Math.round(followUpMs), events: watchers[0]?.seen.at(-1)?.n ?? 0 };
};
