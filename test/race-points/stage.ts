import { randomUUID } from 'node:crypto';
import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import type { RacePoint } from '../../libs/a2a-cluster/src/race-points/race-points.js';
import { cancel, send } from '../../tools/harness/client.js';
import { LOAD_MS, type Member, type TestCluster } from '../helpers/cluster.js';
import { PushReceiver } from '../helpers/push-receiver.js';
import type { RacePoints, RaceSignal } from '../helpers/race-points.js';
import { Recording } from '../helpers/recording.js';
import { eventually } from '../../tools/harness/wait.js';

/** A message, and to whom it was sent. */
export interface Sent {
  recording: Recording;
  text: string;
  to: Member;
  ids: { messageId: string; taskId?: string };
}

/** A push receiver, and the version of its task that it was registered at. */
export interface Registered {
  receiver: PushReceiver;
  taskId: string;
  after: number;
}

/** Who dies, or stands still, where; with what. */
export interface Fate {
  point: RacePoint;
  signal: RaceSignal;
  points: RacePoints;
}

/** What a scenario plays on: a victim that is armed, a survivor, and notes of all that clients are told. */
export class Stage {
  readonly sent: Sent[] = [];
  readonly watchers: { recording: Recording; taskId: string }[] = [];
  readonly registered: Registered[] = [];
  /** Calls to the victim, which may come to nothing where it dies. */
  readonly calls: Promise<unknown>[] = [];
  /** Tasks that a client was told are canceled. */
  readonly canceled: string[] = [];
  /** Whether the victim has come to its point. */
  wasHit = false;
  private awaitHit: (() => Promise<void>) | undefined;

  constructor(
    readonly cluster: TestCluster,
    readonly victim: Member,
    private readonly fate: Fate,
  ) {}

  get survivor(): Member {
    return this.cluster.b;
  }

  /** From here on the victim's next passing of the point is its last, or its last for now. */
  async arm(skip = 0): Promise<void> {
    const { point, signal, points } = this.fate;
    const { hit } = await points.arm(this.victim.process, point, signal, { skip, timeoutMs: LOAD_MS });
    this.awaitHit = hit;
  }

  /** The victim has passed the point: it is dead, or stands still. */
  async hit(): Promise<void> {
    await this.awaitHit?.();
    this.wasHit = true;
  }

  /** A task that waits for its client, and somebody who follows it at the survivor to its end. */
  async waiting(receiver?: TaskPushNotificationConfig): Promise<string> {
    const configuration = { configuration: { taskPushNotificationConfig: receiver } };
    const { id } = await send(this.survivor.client, 'ask go on?', configuration);
    const recording = Recording.subscribe(this.survivor.client, id);
    await recording.task(LOAD_MS);
    this.watchers.push({ recording, taskId: id });
    return id;
  }

  /** Sends a message that no other equals. */
  send(to: Member, script: string, taskId?: string): Recording {
    const messageId = randomUUID();
    return this.post(to, `say ${messageId}\n${script}`, { messageId, ...(taskId !== undefined && { taskId }) });
  }

  /** The last message once more, to the survivor: by a client that does not know what became of it. */
  repeat(): Recording {
    const { text, ids } = this.sent.at(-1)!;
    return this.post(this.survivor, text, ids);
  }

  private post(to: Member, text: string, ids: Sent['ids']): Recording {
    const recording = Recording.send(to.client, text, ids);
    this.sent.push({ recording, text, to, ids });
    return recording;
  }

  /** A turn that the survivor runs: it has said that it works. */
  async survivorRuns(script: string, until = 'WORKING'): Promise<string> {
    const taskId = await this.waiting();
    this.send(this.survivor, script, taskId);
    await this.untilState(taskId, until);
    return taskId;
  }

  /** Cancels at a replica; noted when it says that the task is canceled. */
  async cancel(at: Member, taskId: string): Promise<void> {
    await cancel(at.client, taskId);
    this.canceled.push(taskId);
  }

  /** Something is asked of a replica that may not live to answer it. */
  call(asked: Promise<unknown>): void {
    this.calls.push(asked.catch(() => undefined));
  }

  async untilState(taskId: string, state: string): Promise<void> {
    await eventually(async () => (await this.taskRow(taskId))?.state === `TASK_STATE_${state}`, { timeoutMs: LOAD_MS });
  }

  /** The lease on the task, as it is, has run out by the database's clock. */
  async expired(taskId: string): Promise<() => Promise<boolean>> {
    const { expiresAt } = (await this.cluster.lease(taskId))!;
    const look = async (): Promise<boolean> => {
      const [row] = await this.cluster.database.query<{ past: boolean }>(
        'SELECT clock_timestamp() > $1::timestamptz AS past',
        [expiresAt],
      );
      return row!.past;
    };
    return () => eventually(look, { timeoutMs: LOAD_MS });
  }

  async taskRow(taskId: string): Promise<{ version: number; state: string } | undefined> {
    const statement = 'SELECT version, state FROM a2a_tasks WHERE task_id = $1';
    return (await this.cluster.database.query<{ version: number; state: string }>(statement, [taskId]))[0];
  }
}
