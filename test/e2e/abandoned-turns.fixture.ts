import type { Message, Part, StreamResponse, Task } from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';
import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import {
  AbandonedTaskSweeper,
  type SweeperOptions,
  type SweepResult,
  type TurnRequestContext,
} from 'nestjs-a2a-cluster';
import { getTask, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { eventually } from '../../tools/harness/wait.js';
import { type AgentApp, AgentAppFixture, type AgentBehaviour, type ClusterOptions } from './agent-app.fixture.js';
import { completed, textOf, working } from './agent-events.js';

/** Who held the leases that {@link Abandoned} has made run out. */
export const DEAD = 'dead-replica';

/** Options under which abandoned turns are run again, at once, by the sweep that a test asks for. */
export const reExecuting = (sweeper: Partial<SweeperOptions> = {}, more: ClusterOptions = {}): ClusterOptions => ({
  leases: { heartbeatIntervalMs: 200, ttlMs: 60_000 },
  sweeper: { intervalMs: 3_600_000, policy: 're-execute', backoffMs: 0, ...sweeper },
  ...more,
});

/** For a replica that does not notice by itself that it was given up: nobody wakes it, and it hardly looks. */
export const UNAWARE: ClusterOptions = {
  leases: { heartbeatIntervalMs: 20_000, ttlMs: 60_000 },
  streams: { pollIntervalMs: 60_000, notify: false },
};

/** For a replica that hands its turns over at once when it shuts down; what waits for another attempt waits long. */
export const draining = (sweeper: Partial<SweeperOptions> = {}, more: ClusterOptions = {}): ClusterOptions =>
  reExecuting({ backoffMs: 20_000, ...sweeper }, { turns: { drainTimeoutMs: 50, cancelTimeoutMs: 2_000 }, ...more });

/** One sweep of an app, and what it did. */
export const sweep = (app: AgentApp): Promise<SweepResult> =>
  app.nest.get(AbandonedTaskSweeper, { strict: false }).runOnce();

export interface LeaseRow {
  generation: number;
  holder: string | null;
  attempt: number;
  turnId: string;
  expired: boolean;
  /** Until it can be claimed, in ms. */
  expiresInMs: number;
  renewedAt: string;
}

/** Two replicas of an agent, A of which has died in a turn. */
export interface AbandonedTask {
  a: AgentApp;
  b: AgentApp;
  atA: Client;
  atB: Client;
  id: string;
}

export interface AbandonedOptions {
  /** Options of both. Default: what {@link reExecuting} says. */
  cluster?: ClusterOptions;
  /** What the turn was sent. */
  text?: string;
  /** A dies when this has resolved. Default: as soon as the task is stored. */
  once?: (task: AbandonedTask) => Promise<unknown>;
}

/** Apps, their leases, and turns whose replica is gone. */
export class RecoveryFixture extends AgentAppFixture {
  readonly leases = new Leases(this);

  /** A turn that A runs and that nobody has recovered: the next sweep finds it. */
  async abandoned(
    agent: AgentBehaviour,
    { cluster = reExecuting(), text, once }: AbandonedOptions = {},
  ): Promise<AbandonedTask> {
    const [a, b] = await this.startTwo({ ...agent, cluster });
    const [atA, atB] = [await a.client(), await b.client()];
    const { id } = await begin(atA, text);
    const task = { a, b, atA, atB, id };
    await once?.(task);
    await this.leases.abandon(id);
    return task;
  }

  /** Such turns, one of each text. */
  async abandonedEach(
    agent: AgentBehaviour,
    texts: readonly string[],
    cluster: ClusterOptions = reExecuting(),
  ): Promise<{ b: AgentApp; atA: Client; ids: string[] }> {
    const [a, b] = await this.startTwo({ ...agent, cluster });
    const atA = await a.client();
    const ids: string[] = [];
    for (const text of texts) ids.push((await begin(atA, text)).id);
    await this.leases.abandon(...ids);
    return { b, atA, ids };
  }

  /** A turn that A was running when it shut down, and that is B's to go on with. */
  async handedOver(
    agent: AgentBehaviour,
    cluster: ClusterOptions = draining(),
  ): Promise<{ b: AgentApp; atB: Client; id: string }> {
    const [a, b] = await this.startTwo({ ...agent, cluster });
    const { id } = await begin(await a.client());
    await a.close();
    return { b, atB: await b.client(), id };
  }
}

/** The leases in the database, as a test sees and changes them. */
export class Leases {
  constructor(private readonly fixture: AgentAppFixture) {}

  /** The replica that runs the task is dead from now on: its lease has run out, and is not renewed by it any more. */
  async abandon(...taskIds: string[]): Promise<void> {
    const rows = await this.fixture.database.query(
      `UPDATE a2a_task_leases AS l
          SET holder = $2, renewed_at = clock_timestamp() - interval '1 minute',
              expires_at = clock_timestamp() - interval '1 second'
         FROM a2a_tasks AS t WHERE t.task_no = l.task_no AND t.task_id = ANY($1) RETURNING l.generation`,
      [taskIds, DEAD],
    );
    expect(rows).toHaveLength(taskIds.length);
  }

  /** Whoever has claimed the lease of this task has died, and was not heard of. */
  async expire(taskId: string): Promise<void> {
    await this.fixture.database.query(
      `WITH l AS (
         UPDATE a2a_task_leases SET expires_at = clock_timestamp() - interval '1 second'
          WHERE task_no = (SELECT task_no FROM a2a_tasks WHERE task_id = $1)
         RETURNING holder
       )
       UPDATE a2a_replicas AS r SET expires_at = clock_timestamp() - interval '1 second' FROM l WHERE r.holder = l.holder`,
      [taskId],
    );
  }

  /** A cancel is asked for at a replica that wakes nobody. */
  async flagCancel(taskId: string): Promise<void> {
    await this.set(taskId, 'cancel_requested_at = clock_timestamp()');
  }

  /** What was to be waited for has passed. */
  async due(taskId: string): Promise<void> {
    await this.set(taskId, 'expires_at = clock_timestamp()');
  }

  /** Sets columns of the lease of a task. */
  async set(taskId: string, columns: string): Promise<void> {
    await this.fixture.database.query(
      `UPDATE a2a_task_leases SET ${columns} WHERE task_no = (SELECT task_no FROM a2a_tasks WHERE task_id = $1)`,
      [taskId],
    );
  }

  async find(taskId: string): Promise<LeaseRow | undefined> {
    const [row] = await this.fixture.database.query<LeaseRow>(
      `SELECT generation::integer, holder, attempt, turn_id AS "turnId", expires_at <= clock_timestamp() AS expired,
              (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::double precision AS "expiresInMs",
              renewed_at::text AS "renewedAt"
         FROM a2a_task_leases WHERE task_no = (SELECT task_no FROM a2a_tasks WHERE task_id = $1)`,
      [taskId],
    );
    return row;
  }

  /** Waits until none is left. */
  async gone(): Promise<void> {
    await eventually(async () => {
      expect(await this.fixture.database.query('SELECT holder, attempt FROM a2a_task_leases')).toEqual([]);
      return true;
    });
  }
}

export const textsOf = (parts: readonly Part[] | undefined): string[] =>
  (parts ?? []).map(({ content }) => (content?.$case === 'text' ? content.value : `(${content?.$case})`));

/** The texts of each artifact of a task. */
export const artifactsOf = ({ artifacts }: Task): Record<string, string[]> =>
  Object.fromEntries(artifacts.map(({ artifactId, parts }) => [artifactId, textsOf(parts)]));

/** The texts of a task's history. */
export const historyOf = ({ history }: Task): string[] => history.map(({ parts }) => textsOf(parts).join());

/** The artifact updates of a stream: `+` for what is appended. */
export const updatesIn = (responses: readonly StreamResponse[]): string[] =>
  responses.flatMap(({ payload }) =>
    payload?.$case === 'artifactUpdate'
      ? `${payload.value.artifact?.artifactId}${payload.value.append ? ' +' : ' ='} ${textsOf(payload.value.artifact?.parts).join()}`
      : [],
  );

/** What the executor was called with. */
export interface Run {
  context: TurnRequestContext;
  attempt: number;
  key: string;
  task: Task | undefined;
  message: Message;
}

export const runOf = (context: TurnRequestContext): Run => ({
  context,
  attempt: context.turn.attempt,
  key: context.turn.idempotencyKey('x'),
  task: context.task && structuredClone(context.task),
  message: structuredClone(context.userMessage),
});

export type Step = (context: TurnRequestContext, bus: ExecutionEventBus) => Promise<void> | void;

/** An agent with a step for each attempt. One that returns `hang()` is where its replica dies. */
export function agentByAttempt(...steps: Step[]): AgentBehaviour & { runs: Run[] } {
  const runs: Run[] = [];
  return {
    runs,
    execute: async (context, bus) => {
      runs.push(runOf(context));
      await steps[context.turn.attempt - 1]!(context, bus);
    },
  };
}

/** Never comes back. */
export const hang = (): Promise<void> => new Promise(() => undefined);

/** What a replica does that then dies. */
export const hangsAfterWorking: Step = async (context, bus) => {
  working(bus, context);
  await context.turn.flush();
  await hang();
};

/** Dies in the first attempt, which is told that it works; what it does in later ones is given. */
export function agentWhoseReplicaDies(
  later: (context: TurnRequestContext, bus: ExecutionEventBus) => Promise<void> | void = (context, bus) =>
    completed(bus, context),
): AgentBehaviour & { attempts: string[] } {
  const attempts: string[] = [];
  return {
    attempts,
    execute: async (context, bus) => {
      const { attempt } = context.turn;
      attempts.push(`${textOf(context.userMessage)} ${attempt}`);
      if (attempt > 1) return later(context, bus);
      working(bus, context);
      await context.turn.flush();
      await hang();
    },
  };
}

/** Sends a text, without waiting for more than that it is stored. */
export const begin = (client: Client, text = 'work', taskId?: string): Promise<Task> =>
  send(client, text, { ...(taskId !== undefined && { taskId }), configuration: { returnImmediately: true } });

/** The task once it is over. */
export async function ended(client: Client, taskId: string): Promise<Task> {
  await eventually(async () => isOver(await getTask(client, taskId)));
  return getTask(client, taskId);
}
export const isOver = (task: Task): boolean => ['COMPLETED', 'FAILED', 'CANCELED'].includes(stateName(task));

/** What a task's status says. */
export const statusText = (task: Task): string => textOf(task.status?.message);
