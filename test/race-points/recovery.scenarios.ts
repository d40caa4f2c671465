import type { Stage } from './stage.js';

/**
 * The survivor stands still past its lease, so that the victim is the one that recovers; it goes on when the victim no
 * longer does. What became of its turn it finds out like any stale owner.
 */
async function whileSurvivorIsFrozen(stage: Stage, taskId: string, act: () => Promise<void>): Promise<void> {
  await stage.survivor.process.freeze();
  try {
    const expired = await stage.expired(taskId);
    await act();
    await stage.hit();
    await expired();
  } finally {
    await stage.survivor.process.thaw();
  }
}

/** A turn whose holder is gone, found by the victim's sweep. */
export async function abandonedTurn(stage: Stage): Promise<void> {
  const taskId = await stage.survivorRuns('work 1.5');
  await whileSurvivorIsFrozen(stage, taskId, () => stage.arm());
}

/** The holder is gone, and has left a task that only waits. */
export async function abandonedWaiting(stage: Stage): Promise<void> {
  const taskId = await stage.survivorRuns('auth 60', 'AUTH_REQUIRED');
  await whileSurvivorIsFrozen(stage, taskId, () => stage.arm());
}

/** The abandoned task cannot be read for a while, so that its lease is put back. */
export async function unreadableTask(stage: Stage): Promise<void> {
  const taskId = await stage.survivorRuns('work 60');
  // The row of the last event, out of the way and back.
  const move = (by: number) =>
    stage.cluster.database.query(
      `UPDATE a2a_task_events AS e SET version = e.version + $2::integer FROM a2a_tasks AS t
        WHERE t.task_id = $1 AND e.task_no = t.task_no AND e.version + least($2::integer, 0) = 4`,
      [taskId, by],
    );
  await whileSurvivorIsFrozen(stage, taskId, async () => {
    await move(1_000_000);
    await stage.arm();
    await stage.hit();
    await move(-1_000_000);
  });
}

/** A client comes to the victim before any sweep, and finds that the holder is gone. */
async function foundBy(stage: Stage, script: string, ask: (taskId: string) => void): Promise<string> {
  const taskId = await stage.survivorRuns(script);
  await whileSurvivorIsFrozen(stage, taskId, async () => {
    await (
      await stage.expired(taskId)
    )();
    await stage.arm();
    ask(taskId);
  });
  return taskId;
}

export const foundByFollowUp = async (stage: Stage): Promise<void> => {
  // Where nobody has claimed its lease, the holder that goes on may keep it: then this turn ends by itself.
  await foundBy(stage, 'work 4', (taskId) => stage.send(stage.victim, 'say too late', taskId));
};

export const foundByCancel = async (stage: Stage): Promise<void> => {
  const taskId = await foundBy(stage, 'work 60', (id) => stage.call(stage.cancel(stage.victim, id)));
  await stage.cancel(stage.survivor, taskId);
};
