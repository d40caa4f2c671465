import { lockTask } from '../helpers/sessions.js';
import type { Stage } from './stage.js';

async function victimWorks(stage: Stage, script: string): Promise<string> {
  const taskId = await stage.waiting();
  stage.send(stage.victim, script, taskId);
  await stage.untilState(taskId, 'WORKING');
  await stage.arm();
  return taskId;
}

/** The victim is asked to end in the middle of a turn. */
async function shutsDownIn(stage: Stage, script: string): Promise<void> {
  await victimWorks(stage, script);
  await stage.victim.process.kill('SIGTERM');
  await stage.hit();
}

export const shutsDown = (stage: Stage): Promise<void> => shutsDownIn(stage, 'work 60');

/** Where turns are run again, its turn is handed over. */
export const handsOver = (stage: Stage): Promise<void> => shutsDownIn(stage, 'work 1.5');

/** The end of its turn does not get through in time, so that it lets go of the lease. */
export async function letsGo(stage: Stage): Promise<void> {
  const taskId = await victimWorks(stage, 'work 60');
  const lock = await lockTask(stage.cluster.database, taskId);
  try {
    await stage.victim.process.kill('SIGTERM');
    await stage.hit();
  } finally {
    await lock.release();
  }
}
