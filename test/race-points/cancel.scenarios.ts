import type { Stage } from './stage.js';

/** A cancel comes to the victim, while the turn runs at the survivor; its client asks again there. */
export async function cancelElsewhere(stage: Stage): Promise<void> {
  const taskId = await stage.survivorRuns('work 60');
  await stage.arm();
  stage.call(stage.cancel(stage.victim, taskId));
  await stage.hit();
  await stage.cancel(stage.survivor, taskId);
}

/** The same with a task that nobody works on. */
export async function cancelWaiting(stage: Stage): Promise<void> {
  const taskId = await stage.waiting();
  await stage.arm();
  stage.call(stage.cancel(stage.victim, taskId));
  await stage.hit();
  await stage.cancel(stage.survivor, taskId);
}

/** The victim runs the turn, and is told of the cancel by the survivor, which answers in any case. */
export async function cancelHeard(stage: Stage): Promise<void> {
  const taskId = await stage.waiting();
  stage.send(stage.victim, 'work 60', taskId);
  await stage.untilState(taskId, 'WORKING');
  await stage.arm();
  const canceled = stage.cancel(stage.survivor, taskId);
  await Promise.all([stage.hit(), canceled]);
}

/** The holder does not hear of the cancel, so that the victim forces the end. */
export async function cancelForced(stage: Stage): Promise<void> {
  const taskId = await stage.survivorRuns('work 60');
  await stage.arm();
  await stage.survivor.process.freeze();
  try {
    stage.call(stage.cancel(stage.victim, taskId));
    await stage.hit();
  } finally {
    await stage.survivor.process.thaw();
  }
  await stage.cancel(stage.survivor, taskId);
}
