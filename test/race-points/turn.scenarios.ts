import type { Stage } from './stage.js';

/** A turn with a beginning, a middle and an end, if nobody dies. */
const SCRIPT = 'stream 4 10\nsay and that is all';

/** A message that begins a task. */
export async function newTask(stage: Stage): Promise<void> {
  await stage.arm();
  stage.send(stage.victim, SCRIPT);
  await stage.hit();
}

/** Its client gets no answer, and sends it once more. */
export async function repeatedNewTask(stage: Stage): Promise<void> {
  await newTask(stage);
  stage.repeat();
}

async function turnOf(stage: Stage, script: string, skip = 0): Promise<void> {
  const taskId = await stage.waiting();
  await stage.arm(skip);
  stage.send(stage.victim, script, taskId);
  await stage.hit();
}

/** A message to a task that waits for it. */
export const followUp = (stage: Stage): Promise<void> => turnOf(stage, SCRIPT);

export async function repeatedFollowUp(stage: Stage): Promise<void> {
  await followUp(stage);
  stage.repeat();
}

/** A turn in the middle of what it streams. */
export const midStream = (stage: Stage): Promise<void> => turnOf(stage, SCRIPT, 1);

/** A turn that outlasts a heartbeat. */
export const longTurn = (stage: Stage): Promise<void> => turnOf(stage, 'work 1');

/** A turn that leaves its task waiting without the event that ends it: its lease is released alone. */
export const asksForAuthorization = (stage: Stage): Promise<void> => turnOf(stage, 'auth');

export const chargeNever = (stage: Stage): Promise<void> => turnOf(stage, 'charge 5 never');

export const chargeIdempotent = (stage: Stage): Promise<void> => turnOf(stage, 'charge 5 idempotent');

export const transfer = (stage: Stage): Promise<void> => turnOf(stage, 'transfer 5');
