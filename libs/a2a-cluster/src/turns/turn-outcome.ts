import type { Message, Task, TaskState } from '@a2a-js/sdk';

/** How a turn went. */
export type TurnOutcome =
  /** The agent answered with a message. There is no task, or it was left as it was. */
  | { kind: 'message'; message: Message }
  /** The turn's last event is stored, at this version. `task` is the task as it then stood. */
  | { kind: 'ended'; taskNo: number; version: number; task: Task }
  /** The task is stored, and another replica decides how it ends. */
  | { kind: 'lost'; taskNo: number }
  /** The message was accepted before. Its first turn, on this task, answers it. */
  | { kind: 'repeated'; taskNo: number }
  /** It was not admitted, it broke off, or its task could not be stored. */
  | { kind: 'refused'; error: unknown };

/** The first answer to a sender: the message is durable, or will never be. */
export type TurnOpening =
  /** `task` is the task that a follow-up was admitted to, or the one that waits on. A new task is read instead. */
  | { kind: 'task'; taskNo: number; version: number; task: Task | undefined }
  | Extract<TurnOutcome, { kind: 'message' | 'repeated' | 'refused' }>;

/** The turn has asked for authentication. A blocking send does not wait beyond that. */
export interface AuthenticationWanted {
  kind: 'authRequired';
  taskNo: number;
}

/** A turn as those see it who wait for its answers. None of its promises rejects. */
export interface TurnProgress {
  readonly opened: Promise<TurnOpening>;
  /** Stays pending where the turn asks for no authentication. */
  readonly authRequired: Promise<AuthenticationWanted>;
  readonly outcome: Promise<TurnOutcome>;
  /** The agent's answer, where it is a message. */
  readonly reply: Message | undefined;
  /** The last state that the turn itself has published. */
  readonly published: TaskState | undefined;
  /** The version of the task that the turn has stored last, 0 before its first commit. */
  readonly version: number;
}

/** The progress of a message that was accepted before, for this task: no turn begins. */
export function repetitionOf(taskNo: number): TurnProgress {
  const repeated = Promise.resolve<Extract<TurnOutcome, { kind: 'repeated' }>>({ kind: 'repeated', taskNo });
  return {
    opened: repeated,
    authRequired: new Promise(() => undefined),
    outcome: repeated,
    reply: undefined,
    published: undefined,
    version: 0,
  };
}
