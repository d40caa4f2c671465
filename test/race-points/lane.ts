import { cancel, send } from '../../tools/harness/client.js';
import { LOAD_MS, type Member, TestCluster } from '../helpers/cluster.js';
import { RacePoints, type RaceSignal } from '../helpers/race-points.js';
import type { ReplicaEnvironment } from '../../tools/harness/replica-process.js';
import { stateName } from '../helpers/recording.js';
import { eventually, within } from '../../tools/harness/wait.js';
import { type Case, type ClusterKind, titleOf } from './cases.js';
import { expectContract, isQuiet, lastTaskNo, tasksAfter } from './contract.js';
import type { Gate } from './gate.js';
import { Stage } from './stage.js';

const TIMES = { heartbeat: 500, ttl: 2_000, sweep: 250, backoff: 100 };

/** How often a case is played whose victim does not come to its point. */
const TRIES = 3;

/** TTL and sweep interval are what is promised; where turns are run again, they take their time once more. */
const RECOVERED_MS = TIMES.ttl + TIMES.sweep + TIMES.backoff;

const ENVIRONMENT: ReplicaEnvironment = {
  A2A_HEARTBEAT_MS: TIMES.heartbeat,
  A2A_TTL_MS: TIMES.ttl,
  A2A_SWEEP_MS: TIMES.sweep,
  A2A_BACKOFF_MS: TIMES.backoff,
  A2A_DRAIN_MS: 300,
  A2A_CANCEL_MS: 700,
  A2A_PUSH_ALLOW: '127.0.0.0/8',
};

const OF_ALL: Record<ClusterKind, ReplicaEnvironment> = {
  fails: {},
  'runs again': { A2A_POLICY: 're-execute' },
  'seldom sweeps': {},
};

const OF_VICTIMS: Record<ClusterKind, ReplicaEnvironment> = {
  fails: {},
  'runs again': {},
  'seldom sweeps': { A2A_SWEEP_MS: 600_000, A2A_CANCEL_MS: 300 },
};

/** What became of a case, for the list at the end. */
export interface Outcome {
  title: string;
  states: string[];
  /** From the moment at which the victim stopped until all was quiet, in ms. */
  quietMs: number;
}

/** What is done when the victim has stopped. */
type AfterHit = (stage: Stage, stoppedAt: number) => Promise<void>;

/** One database with a survivor, and a victim for each case, one case after the other. */
export class Lane {
  private readonly points = new RacePoints();
  private booting: Promise<Member> | undefined;
  /** Tasks that have ended, with their versions: nothing is added to them any more. */
  private readonly ended = new Map<string, number>();

  private constructor(
    private readonly cluster: TestCluster,
    private readonly kind: ClusterKind,
    private readonly boots: Gate,
  ) {}

  static async start(kind: ClusterKind, boots: Gate): Promise<Lane> {
    const cluster = await boots.pass(() => TestCluster.start({ ...ENVIRONMENT, ...OF_ALL[kind] }, ['B']));
    return new Lane(cluster, kind, boots);
  }

  /** The victim dies at the point; the next one is booted while the survivor goes on. */
  kill(it: Case): Promise<Outcome> {
    return this.play(it, 'SIGKILL', async () => {
      await this.cluster.kill('A');
      void this.boot();
    });
  }

  /** The victim stands still at the point until long after its lease has run out, and then goes on. */
  freeze(it: Case, endsVictim: boolean): Promise<Outcome> {
    return this.play(it, 'SIGSTOP', async (stage, stoppedAt) => {
      const { database } = this.cluster;
      await until(stoppedAt + RECOVERED_MS);
      await eventually(() => isQuiet(database), { timeoutMs: RECOVERED_MS + LOAD_MS });
      await this.noteEnded();
      await stage.victim.process.thaw();
      if (endsVictim) {
        const { code } = await within(stage.victim.process.exited, LOAD_MS, 'the victim ends');
        expect(code).toBe(0);
        await this.cluster.kill('A');
      } else {
        expect(stateName(await send(stage.victim.client, 'say still here'))).toBe('COMPLETED');
      }
    });
  }

  async stop(): Promise<void> {
    await this.booting?.catch(() => undefined);
    await this.expectNothingAdded();
    await this.cluster.stop();
  }

  /** A victim that was too slow, and lost its lease before its point, has shown nothing: the case is played again. */
  private async play(it: Case, signal: RaceSignal, afterHit: AfterHit): Promise<Outcome> {
    for (let tries = 1; ; tries += 1) {
      const before = await lastTaskNo(this.cluster.database);
      let stage: Stage | undefined;
      try {
        stage = new Stage(this.cluster, await this.boot(), { point: it.point, signal, points: this.points });
        return await this.playOn(stage, it, before, afterHit);
      } catch (error) {
        await this.clear(before);
        if (stage?.wasHit || tries === TRIES) throw error;
      }
    }
  }

  private async playOn(stage: Stage, it: Case, before: string, afterHit: AfterHit): Promise<Outcome> {
    const { database } = this.cluster;
    await it.scenario(stage);
    const stoppedAt = performance.now();
    await afterHit(stage, stoppedAt);
    await eventually(() => isQuiet(database), { timeoutMs: RECOVERED_MS + LOAD_MS });
    const quietMs = Math.round(performance.now() - stoppedAt);
    await Promise.all(stage.calls.map((call) => within(call, LOAD_MS, 'a call to the victim is answered')));
    await this.endWaiting(before);
    for (const { recording } of stage.sent) await within(recording.ended, LOAD_MS, 'a sender hears the end');
    const tasks = await tasksAfter(database, before);
    await expectContract(stage, tasks);
    await this.expectNothingAdded();
    await this.noteEnded();
    return { title: titleOf(it), states: await this.statesOf(tasks), quietMs };
  }

  /** The next case is to find a cluster that it can use. */
  private async clear(before: string): Promise<void> {
    const { database, b: survivor } = this.cluster;
    await this.cluster.kill('A').catch(() => undefined);
    for (const taskId of await tasksAfter(database, before))
      await cancel(survivor.client, taskId).catch(() => undefined);
  }

  /** The victim that is there or on its way; else one is started. */
  private boot(): Promise<Member> {
    const there = this.cluster.all.find(({ name }) => name === 'A');
    if (there) return Promise.resolve(there);
    const env = { ...OF_VICTIMS[this.kind], ...this.points.environment };
    this.booting ??= this.boots.pass(() => this.cluster.add('A', env)).finally(() => (this.booting = undefined));
    this.booting.catch(() => undefined);
    return this.booting;
  }

  /** What waits for its client can be gone on with, and is brought to its end. */
  private async endWaiting(before: string): Promise<void> {
    const { database, b: survivor } = this.cluster;
    for (const taskId of await tasksAfter(database, before)) {
      await eventually(
        async () => {
          const [row] = await database.query<{ waits: boolean }>(
            `SELECT state IN ('TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED') AS waits
               FROM a2a_tasks WHERE task_id = $1`,
            [taskId],
          );
          if (row!.waits) await send(survivor.client, 'say done', { taskId });
          return true;
        },
        { timeoutMs: LOAD_MS },
      );
    }
  }

  private async noteEnded(): Promise<void> {
    for (const [taskId, version] of await this.versions()) this.ended.set(taskId, version);
  }

  /** I4: tasks that had ended are as they were. */
  private async expectNothingAdded(): Promise<void> {
    const now = await this.versions();
    expect([...this.ended].map(([taskId]) => [taskId, now.get(taskId)])).toEqual([...this.ended]);
  }

  private async versions(): Promise<Map<string, number>> {
    const rows = await this.cluster.database.query<{ id: string; version: number }>(
      `SELECT task_id AS id, version FROM a2a_tasks WHERE state NOT IN ('TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING',
              'TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED')`,
    );
    return new Map(rows.map(({ id, version }) => [id, version]));
  }

  private async statesOf(tasks: readonly string[]): Promise<string[]> {
    const rows = await this.cluster.database.query<{ state: string }>(
      "SELECT replace(state, 'TASK_STATE_', '') AS state FROM a2a_tasks WHERE task_id = ANY($1) ORDER BY task_no",
      [tasks],
    );
    return rows.map(({ state }) => state);
  }
}

/** Waits for a monotonic time: that time passes is what matters here. */
const until = (at: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.max(0, at - performance.now())));
