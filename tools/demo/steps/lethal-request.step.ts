import { setTimeout as pause } from 'node:timers/promises';
import { type Task, TaskState } from '@a2a-js/sdk';
import { textOf } from '../../harness/text.js';
import { expect, until } from '../expect.js';
import { describeExit } from '../../harness/replica-process.js';
import type { Replica } from '../replica.js';
import type { Step } from '../stage.js';
import { since, type Story } from '../story.js';
import { MAX_ATTEMPTS, reExecutionBoundMs } from '../times.js';
import { stateName } from '../watcher.js';

/** Before it dies, so that its client has heard of the task. */
const WORK_MS = 500;

/** No bound: while all replicas are dead or starting, nobody looks. */
const PATIENCE_MS = 60_000;

/** A request that kills its process at every attempt is given up: it does not kill replicas for ever. */
export const lethalRequest: Step = async ({ a, b, c, log, story }) => {
  const script = `work ${WORK_MS / 1000}\nexit`;
  story.begin(`A lethal request: ${JSON.stringify(script)} kills each replica that runs it; all are started again`);
  const start = performance.now();
  const keeper = new Keeper([a, b, c], story, start);
  try {
    const { taskId } = await a.client.stream(script).first('the task', () => true);
    const failed = await until('the task is over', () => keeper.task(taskId), isOver, PATIENCE_MS);
    const firstToFailedMs = Math.round(since(start));
    const state = failed?.status?.state;
    expect(state === TaskState.TASK_STATE_FAILED, `the task ended ${stateName(state)}`);
    story.tell('', 'FAILED', firstToFailedMs);
    const text = textOf(failed?.status?.message);
    expect(text.includes(`run ${MAX_ATTEMPTS} times`), `the status does not say how often it was run: "${text}"`);
    story.tell('', `"${text}"`);

    // Another attempt would have begun by then.
    await pause(reExecutionBoundMs(MAX_ATTEMPTS + 1));
    expect(keeper.deaths === MAX_ATTEMPTS, `${keeper.deaths} replicas died of it, not ${MAX_ATTEMPTS}`);
    const [leases, terminalEvents] = [await log.leases(), await log.terminalEvents(taskId)];
    expect(leases === 0, 'a lease is left');
    expect(terminalEvents === 1, `the log holds ${terminalEvents} terminal events`);
    story.tell('', `${keeper.deaths} deaths, and none since; one terminal event, no lease left`);
    return { attempts: keeper.deaths, firstToFailedMs, terminalEvents };
  } finally {
    keeper.stop();
  }
};

/** Starts replicas again that die. */
class Keeper {
  deaths = 0;
  private stopped = false;
  private trouble: unknown;

  constructor(
    private readonly replicas: readonly Replica[],
    private readonly story: Story,
    private readonly start: number,
  ) {
    for (const replica of replicas) this.keep(replica).catch((error: unknown) => (this.trouble = error));
  }

  /** As the first replica tells it that answers: any of them may just be dead. */
  async task(taskId: string): Promise<Task | undefined> {
    if (this.trouble !== undefined) throw this.trouble as Error;
    for (const { client } of this.replicas) {
      const task = await client.task(taskId).catch(() => undefined);
      if (task !== undefined) return task;
    }
    return undefined;
  }

  stop(): void {
    this.stopped = true;
  }

  private async keep(replica: Replica): Promise<void> {
    for (;;) {
      const exit = await replica.process.exited;
      if (this.stopped) return;
      this.deaths++;
      this.story.tell(replica.name, `death ${this.deaths}: ${describeExit(exit)}`, since(this.start));
      await replica.restart();
    }
  }
}

function isOver(task: Task | undefined): boolean {
  const state = task?.status?.state;
  return state === TaskState.TASK_STATE_FAILED || state === TaskState.TASK_STATE_COMPLETED;
}
