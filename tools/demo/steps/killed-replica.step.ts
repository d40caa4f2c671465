import { TaskState } from '@a2a-js/sdk';
import { UnsupportedOperationError } from '@a2a-js/sdk/errors';
import { textOf } from '../../harness/text.js';
import { describeError } from '../../../apps/sample/src/describe-error.js';
import { expect } from '../expect.js';
import { describeExit } from '../../harness/replica-process.js';
import type { Replica } from '../replica.js';
import type { Step } from '../stage.js';
import { since } from '../story.js';
import { RECOVERY_BOUND_MS, SLACK_MS, TIMES } from '../times.js';
import { stateName } from '../watcher.js';

/** A replica is killed in the middle of a turn: everybody hears FAILED, once, within TTL + sweep interval. */
export const killedReplica: Step = async ({ a, b, c, log, story }) => {
  story.begin('A killed replica: "work 60" is sent to A, B and C subscribe, A dies');
  const sender = a.client.stream('work 60');
  const { taskId } = await sender.first('the task', () => true);
  const watchers = await Promise.all([b.client.subscribe(taskId), c.client.subscribe(taskId)]);
  await Promise.all(watchers.map((watcher) => watcher.first('work', ({ kind }) => kind === 'statusUpdate')));
  await refuseFollowUp(c, taskId);
  story.tell('C sender', 'the follow-up is refused: UnsupportedOperationError');

  const pid = a.process.pid;
  a.process.signal('SIGKILL');
  const killedAt = performance.now();
  story.tell(
    'A',
    `process ${pid}: ${describeExit(await a.process.exited)}; the others wait for its lease to run out …`,
  );
  await sender.over;
  story.tell(sender.who, `its stream broke off (${sender.summary()})`);

  const ends = await Promise.all(watchers.map((watcher) => watcher.end(TaskState.TASK_STATE_FAILED)));
  const times = ends.map(({ at }) => at - killedAt);
  for (const [index, watcher] of watchers.entries()) story.tell(watcher.who, 'FAILED', times[index]);
  const slowest = Math.max(...times);
  const bound = `TTL ${TIMES.ttl} + sweep ${TIMES.sweep} + slack ${SLACK_MS} ms`;
  expect(slowest <= RECOVERY_BOUND_MS, `FAILED came ${Math.round(slowest)} ms after the kill; the bound is ${bound}`);
  story.tell('', `from kill to FAILED, the slowest (bound: ${bound})`, slowest);

  const texts = await Promise.all([b, c].map((replica) => failureAt(replica, taskId)));
  story.tell('B, C', 'GetTask says FAILED');
  for (const text of texts) {
    const evidence = new RegExp(`\\b${pid}\\b`).test(text) && /heartbeat/i.test(text);
    expect(evidence, `the status names neither the dead holder (pid ${pid}) nor its last heartbeat: "${text}"`);
  }
  story.tell('', `"${texts[0]}"`);
  const terminalEvents = await log.terminalEvents(taskId);
  expect(terminalEvents === 1, `the log holds ${terminalEvents} terminal events`);
  expect((await log.leases()) === 0, 'a lease is left');
  story.tell('log', 'one terminal event, no lease left');
  return {
    killToFailedMs: Math.round(slowest),
    boundMs: RECOVERY_BOUND_MS,
    terminalEvents,
    settledMs: Math.round(since(killedAt)),
  };
};

async function refuseFollowUp({ client }: Replica, taskId: string): Promise<void> {
  const outcome: unknown = await client.followUp('say me too', taskId).catch((error: unknown) => error);
  const refused = outcome instanceof UnsupportedOperationError;
  expect(refused, `the follow-up was not refused with UnsupportedOperationError but: ${describeError(outcome)}`);
  const { history } = await client.task(taskId);
  expect(!history.some((message) => textOf(message) === 'say me too'), 'the refused follow-up is in the history');
}

async function failureAt({ client }: Replica, taskId: string): Promise<string> {
  const { status } = await client.task(taskId);
  const failed = status?.state === TaskState.TASK_STATE_FAILED;
  expect(failed, `GetTask at ${client.replica} says ${stateName(status?.state)}`);
  return textOf(status.message);
}
