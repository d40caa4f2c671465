import { TaskState } from '@a2a-js/sdk';
import { expect, until, within } from '../expect.js';
import { expectCount, inWords } from '../ledger-count.js';
import { secondAttempt } from '../run-again.js';
import type { Step } from '../stage.js';
import { since } from '../story.js';
import { TIMES } from '../times.js';

/** Between the two statements of the transfer: well below a third of the TTL, which is what the server allows. */
const TRANSFER_MS = 400;

/** A replica freezes in the middle of its transaction: that is rolled back, and the transfer is done once, elsewhere. */
export const frozenTransfer: Step = async ({ a, b, c, log, story }) => {
  story.begin(`A frozen transfer: B is stopped in the transaction of "transfer 5 ${TRANSFER_MS}", past its TTL`);
  const sender = b.client.stream(`transfer 5 ${TRANSFER_MS}`);
  const { taskId } = await sender.first('the task', () => true);
  const openTransfers = () => log.openTransfers();
  await until('the transfer is half done', openTransfers, (open) => open === 1);
  b.process.signal('SIGSTOP');
  const frozenAt = performance.now();
  story.tell('B', `SIGSTOP between the transfer's two statements; its TTL is ${TIMES.ttl} ms …`);
  const watcher = await c.client.subscribe(taskId);

  await until('PostgreSQL ends the transaction', openTransfers, (open) => open === 0);
  const freezeToRollbackMs = Math.round(since(frozenAt));
  await expectCount(c, taskId, 1, 0);
  story.tell('PostgreSQL', 'has rolled the transaction back: nothing accepted', freezeToRollbackMs);
  const freezeToAgainMs = await secondAttempt([a, c], taskId, frozenAt, story);
  const { at } = await watcher.end(TaskState.TASK_STATE_COMPLETED);
  story.tell(watcher.who, 'COMPLETED', at - frozenAt);
  story.tell('ledger', inWords(await expectCount(c, taskId, 2, 1)));
  const before = await log.position(taskId);

  b.process.signal('SIGCONT');
  const thawedAt = performance.now();
  story.tell('B', 'SIGCONT');
  const aborted = await b.line(new RegExp(`^task ${taskId}: signal aborted: `));
  expect(aborted.endsWith(': A2A_LEASE_LOST'), `B's executor saw another reason: ${aborted}`);
  const late = await b.line(new RegExp(`^task ${taskId}: late event `));
  expect(late.includes(': late event refused'), `what B published late was not refused: ${late}`);
  story.tell('B', 'its executor saw A2A_LEASE_LOST; what it published then was refused', since(thawedAt));
  await within("the end of B's own stream", sender.over);

  const count = await expectCount(b, taskId, 2, 1);
  const after = await log.position(taskId);
  const unchanged = after.version === before.version && after.events === before.events;
  expect(unchanged, `the task changed after COMPLETED: ${JSON.stringify({ before, after })}`);
  story.tell('ledger', `${inWords(count)}, still; the task is unchanged`);
  const freezeToCompletedMs = Math.round(at - frozenAt);
  return { attempt: 2, freezeToRollbackMs, freezeToAgainMs, freezeToCompletedMs, ...count };
};
