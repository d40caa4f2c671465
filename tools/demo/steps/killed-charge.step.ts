import { TaskState } from '@a2a-js/sdk';
import { EFFECTS_METADATA_KEY } from 'nestjs-a2a-cluster';
import { textOf } from '../../harness/text.js';
import { expect, until } from '../expect.js';
import { expectCount, inWords } from '../ledger-count.js';
import type { Replica } from '../replica.js';
import { kill, secondAttempt } from '../run-again.js';
import type { Figures, Step } from '../stage.js';
import type { Story } from '../story.js';
import { RECOVERY_BOUND_MS } from '../times.js';

/** How long the ledger takes to answer where a second attempt may wait for its answer, too. */
const ANSWER_MS = 1_500;

/** A charge that must not be repeated: the task fails, and says what nobody knows. */
export const chargeNever: Step = async ({ b, c, story }) => {
  const script = 'charge 5 never 60000';
  story.begin(`A charge in doubt: B runs "${script}" and dies, when the ledger has accepted and not answered`);
  const { taskId, watcher } = await acceptedCharge(script, b, c, story);
  const killedAt = await kill(b, story);

  const failed = await watcher.end(TaskState.TASK_STATE_FAILED);
  const killToFailedMs = Math.round(failed.at - killedAt);
  expect(killToFailedMs <= RECOVERY_BOUND_MS, `FAILED came after ${killToFailedMs} ms, not ${RECOVERY_BOUND_MS}`);
  story.tell(watcher.who, `FAILED (bound: ${RECOVERY_BOUND_MS} ms)`, killToFailedMs);
  const message = (await c.client.task(taskId)).status?.message;
  const text = textOf(message);
  const evidence = JSON.stringify(message?.metadata?.[EFFECTS_METADATA_KEY]) ?? 'absent';
  expect(text.includes("'charge-1'"), `the status does not name the charge: "${text}"`);
  expect(evidence.includes('"charge-1"'), `${EFFECTS_METADATA_KEY} does not name the charge: ${evidence}`);
  story.tell('', `"${text}"`);
  const count = await expectCount(c, taskId, 1, 1);
  story.tell('ledger', inWords(count));
  await b.restart();
  return { killToFailedMs, ...count };
};

/** A ledger that recognises the key: the charge is sent again, and accepted once. */
export const chargeIdempotent: Step = ({ a, b, c, story }) =>
  completedElsewhere(`charge 5 idempotent ${ANSWER_MS}`, c, [a, b], 2, story);

/** A ledger that can be asked: it has accepted the charge, which is not sent again. */
export const chargeReconcile: Step = ({ a, b, c, story }) =>
  completedElsewhere(`charge 5 reconcile ${ANSWER_MS}`, a, [b, c], 1, story);

/** The holder dies with its charge in doubt, another replica completes the task; the ledger is called this often. */
async function completedElsewhere(
  script: string,
  holder: Replica,
  others: readonly [Replica, Replica],
  calls: number,
  story: Story,
): Promise<Figures> {
  story.begin(`The same death of ${holder.name} in "${script}"`);
  const [other] = others;
  const { taskId, watcher } = await acceptedCharge(script, holder, other, story);
  const killedAt = await kill(holder, story);
  const killToAgainMs = await secondAttempt(others, taskId, killedAt, story);

  const { at } = await watcher.end(TaskState.TASK_STATE_COMPLETED);
  const charged = watcher.seen.filter(({ text }) => text.startsWith('charged 5 '));
  expect(charged.length === 1, `${watcher.who} was told ${charged.length} times that 5 were charged`);
  story.tell(watcher.who, `"${charged[0]?.text}", COMPLETED`, at - killedAt);
  const count = await expectCount(other, taskId, calls, 1);
  story.tell('ledger', inWords(count));
  await holder.restart();
  return { attempt: 2, killToAgainMs, killToCompletedMs: Math.round(at - killedAt), ...count };
}

/** Sends the script to the holder, watches it elsewhere, and waits until the ledger has accepted the charge. */
async function acceptedCharge(script: string, holder: Replica, other: Replica, story: Story) {
  const { taskId } = await holder.client.stream(script).first('the task', () => true);
  const watcher = await other.client.subscribe(taskId);
  const look = () => other.ledger(taskId);
  await until('the ledger accepts the charge', look, ({ acceptedEffects }) => acceptedEffects === 1);
  story.tell('ledger', 'has accepted the charge');
  return { taskId, watcher };
}
