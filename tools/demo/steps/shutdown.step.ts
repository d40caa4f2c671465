import { TaskState } from '@a2a-js/sdk';
import { expect, within } from '../expect.js';
import { describeExit } from '../../harness/replica-process.js';
import type { Step } from '../stage.js';
import { since } from '../story.js';
import { TIMES } from '../times.js';

/** A replica is asked to stop in the middle of a turn: it ends what it cannot finish, and leaves nothing behind. */
export const shutdown: Step = async ({ b, c, log, story }) => {
  story.begin('A shutdown: C gets SIGTERM in the middle of "work 60", B watches');
  const sender = c.client.stream('work 60');
  const { taskId } = await sender.first('the task', () => true);
  const watcher = await b.client.subscribe(taskId);
  await watcher.first('work', ({ kind }) => kind === 'statusUpdate');
  expect((await log.leases()) === 1, 'the turn at C runs without a lease');

  c.process.signal('SIGTERM');
  const start = performance.now();
  story.tell('C', `SIGTERM; it drains for ${TIMES.drain} ms …`);
  const failed = await watcher.end(TaskState.TASK_STATE_FAILED);
  const termToFailedMs = failed.at - start;
  story.tell(watcher.who, `FAILED: "${failed.text}"`, termToFailedMs);
  const exit = await within('the exit of C', c.process.exited);
  const termToExitMs = since(start);
  story.tell('C', describeExit(exit), termToExitMs);
  expect(exit.code === 0, `C ended with ${describeExit(exit)}, not with exit code 0`);

  const leases = await log.leases();
  expect(leases === 0, `${leases} leases are left`);
  const terminalEvents = await log.terminalEvents(taskId);
  expect(terminalEvents === 1, `the log holds ${terminalEvents} terminal events`);
  story.tell('log', 'one terminal event, no lease left');
  return {
    termToFailedMs: Math.round(termToFailedMs),
    termToExitMs: Math.round(termToExitMs),
    exitCode: exit.code,
    leases,
  };
};
