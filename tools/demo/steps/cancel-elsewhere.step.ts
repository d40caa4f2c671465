import { TaskState } from '@a2a-js/sdk';
import { expect } from '../expect.js';
import type { Step } from '../stage.js';
import { since } from '../story.js';
import { stateName } from '../watcher.js';

/** A turn at one replica is canceled at another: its executor is told, and stops. */
export const cancelElsewhere: Step = async ({ b, c, log, story }) => {
  story.begin('A cancel from elsewhere: "work 60" runs at B, C is asked to cancel it');
  const sender = b.client.stream('work 60');
  const { taskId } = await sender.first('the task', () => true);
  const watcher = await c.client.subscribe(taskId);
  await watcher.first('work', ({ kind }) => kind === 'statusUpdate');

  const start = performance.now();
  const task = await c.client.cancel(taskId);
  const cancelMs = since(start);
  const state = task.status?.state;
  expect(state === TaskState.TASK_STATE_CANCELED, `CancelTask at C answered ${stateName(state)}`);
  story.tell('C', 'CancelTask answers CANCELED', cancelMs);

  const line = await b.line(new RegExp(`^task ${taskId}: signal aborted: `));
  expect(line.endsWith(': A2A_TASK_CANCELED'), `B's executor saw another reason: ${line}`);
  story.tell('B', 'its executor saw its signal abort: A2A_TASK_CANCELED');
  for (const each of [sender, watcher]) {
    const end = await each.end(TaskState.TASK_STATE_CANCELED);
    story.tell(each.who, 'CANCELED', end.at - start);
  }
  const terminalEvents = await log.terminalEvents(taskId);
  expect(terminalEvents === 1, `the log holds ${terminalEvents} terminal events`);
  return { cancelMs: Math.round(cancelMs), terminalEvents };
};
