import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import { LOAD_MS } from '../helpers/cluster.js';
import { PushReceiver } from '../helpers/push-receiver.js';
import { eventually } from '../../tools/harness/wait.js';
import type { Stage } from './stage.js';

const configOf = (receiver: PushReceiver, taskId = ''): TaskPushNotificationConfig => ({
  tenant: '',
  id: 'hook',
  taskId,
  url: receiver.url(),
  token: '',
  authentication: undefined,
});

/** A receiver is registered at the victim, and once more by a client that got no answer. */
export async function registersReceiver(stage: Stage): Promise<void> {
  const receiver = await PushReceiver.start();
  const taskId = await stage.waiting();
  const { version: after } = (await stage.taskRow(taskId))!;
  await stage.arm();
  stage.call(stage.victim.client.createTaskPushNotificationConfig(configOf(receiver, taskId)));
  await stage.hit();
  await stage.survivor.client.createTaskPushNotificationConfig(configOf(receiver, taskId));
  stage.registered.push({ receiver, taskId, after });
}

/** The victim runs a turn and tells its receiver, since the survivor cannot. */
async function tells(stage: Stage, act: (taskId: string) => Promise<void>): Promise<void> {
  const receiver = await PushReceiver.start();
  const taskId = await stage.waiting(configOf(receiver));
  stage.registered.push({ receiver, taskId, after: 0 });
  const { version } = (await stage.taskRow(taskId))!;
  await eventually(async () => (await deliveredVersion(stage, taskId)) === version, { timeoutMs: LOAD_MS });
  await stage.survivor.process.freeze();
  try {
    await act(taskId);
    await stage.hit();
    // The victim's claim would run out after twice the time that a receiver has to answer, which is ten seconds.
    await stage.cluster.database.query(
      `UPDATE a2a_push_configs SET claimed_until = clock_timestamp()
        WHERE claimed_until > clock_timestamp() AND claimed_until < 'infinity'`,
    );
  } finally {
    await stage.survivor.process.thaw();
  }
}

export const tellsReceiver = (stage: Stage): Promise<void> =>
  tells(stage, async (taskId) => {
    await stage.arm();
    stage.send(stage.victim, 'stream 4 10', taskId);
  });

/** Claims are made all the time: this one comes while there is something to tell. */
export const looksForReceivers = (stage: Stage): Promise<void> =>
  tells(stage, async (taskId) => {
    stage.send(stage.victim, 'stream 200 10', taskId);
    await stage.untilState(taskId, 'WORKING');
    await stage.arm();
  });

async function deliveredVersion({ cluster }: Stage, taskId: string): Promise<number | undefined> {
  const [row] = await cluster.database.query<{ delivered: number }>(
    `SELECT p.delivered_version AS delivered FROM a2a_push_configs AS p JOIN a2a_tasks AS t USING (task_no)
      WHERE t.task_id = $1`,
    [taskId],
  );
  return row?.delivered;
}
