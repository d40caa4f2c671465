import type { Message, StreamResponse, Task } from '@a2a-js/sdk';
import { TaskState } from '@a2a-js/sdk';
import { A2AError } from '@a2a-js/sdk/errors';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import { stateSetBy, toStreamResponse } from '../tasks/task-event.js';
import { endsTurn, isInterrupted, isTerminal } from '../tasks/task-states.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import type { TurnExecution } from '../turns/turn-execution.js';

/** What the sender of a message is answered: at once, at the end of the turn, or as a stream. */
export class TurnAnswers {
  constructor(
    private readonly tasks: VersionedTaskStore,
    private readonly stream: TaskEventStream,
  ) {}

  /** As soon as the message is durable. */
  async first(turn: TurnExecution): Promise<Message | Task> {
    const opened = await turn.opened.promise;
    return 'message' in opened ? opened.message : (opened.task ?? (await this.read(opened.taskNo)));
  }

  /** When the task has ended or waits for its client, or when the agent has answered with a message. */
  async final(turn: TurnExecution): Promise<Message | Task> {
    const end = await Promise.race([turn.ended.promise, turn.authRequired.promise]);
    if (!('kind' in end)) return this.read(end.taskNo);
    switch (end.kind) {
      case 'message':
        return end.message;
      case 'ended':
        return end.task;
      case 'lost': {
        if (end.taskNo === undefined) throw new A2AError('The task could not be stored.');
        return this.decidedElsewhere(end.taskNo, turn.admittedTask?.version ?? 0);
      }
    }
  }

  /** The Task, then the turn's events, until it ends the task or waits for its client. */
  async *streamed(turn: TurnExecution, gone: AbortSignal): AsyncGenerator<StreamResponse, void> {
    const opened = await turn.opened.promise;
    if ('message' in opened) {
      yield { payload: { $case: 'message', value: opened.message } };
      return;
    }
    // A new task's first event is its Task; a follow-up's answer begins with the task as it was admitted.
    if (opened.task) yield { payload: { $case: 'task', value: opened.task } };
    yield* this.events(turn, opened.taskNo, opened.version, gone);
    if (turn.reply && !gone.aborted) {
      const end = await turn.ended.promise;
      if (end.kind === 'message') yield { payload: { $case: 'message', value: end.message } };
    }
  }

  private async *events(
    turn: TurnExecution,
    taskNo: number,
    fromVersion: number,
    gone: AbortSignal,
  ): AsyncGenerator<StreamResponse, void> {
    const over = new AbortController();
    let cursor = fromVersion;
    let last = Infinity;
    void turn.ended.promise.then(
      (end) => {
        // A lost turn goes on elsewhere, and one that waits for authentication keeps its stream open.
        if (end.kind === 'lost' || turn.loop?.published === TaskState.TASK_STATE_AUTH_REQUIRED) return;
        last = end.kind === 'ended' ? end.version : (turn.loop?.key?.version ?? 0);
        if (cursor >= last) over.abort();
      },
      () => over.abort(),
    );
    for await (const { version, event } of this.stream.follow(
      taskNo,
      fromVersion,
      AbortSignal.any([gone, over.signal]),
    )) {
      const response = toStreamResponse(event);
      if (response) yield response;
      cursor = version;
      if (endsTurn(stateSetBy(event) ?? 0) || cursor >= last) return;
    }
  }

  /** The lease was lost: whoever claimed it decides. Its answer is waited for; what was before is no answer (O49). */
  private async decidedElsewhere(taskNo: number, admittedVersion: number): Promise<Task> {
    const never = new AbortController().signal;
    for (;;) {
      const stored = await this.tasks.findByNo(taskNo);
      if (!stored) throw new A2AError('The task was deleted.');
      const state = stored.task.status?.state ?? 0;
      if (isTerminal(state) || (isInterrupted(state) && stored.stateVersion > admittedVersion)) return stored.task;
      const next = await this.stream.follow(taskNo, stored.version, never).next();
      if (next.done) throw new A2AError('The replica is shutting down; ask another one for the task.');
    }
  }

  private async read(taskNo: number): Promise<Task> {
    const stored = await this.tasks.findByNo(taskNo);
    if (!stored) throw new A2AError('The task was deleted.');
    return stored.task;
  }
}
