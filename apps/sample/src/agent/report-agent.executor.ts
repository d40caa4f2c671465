import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { type Message, type Part, Role, TaskState } from '@a2a-js/sdk';
import { AgentEvent, type ExecutionEventBus } from '@a2a-js/sdk/server';
import { currentTurn, type TurnExecutor, type TurnRequestContext } from 'nestjs-a2a-cluster';
import { ReportArchive } from './report.archive.js';

const SECTIONS = ['Summary', 'Background', 'Outlook'];

/** How long a section takes to write; put the call of your model there, and give it the turn's signal. */
const SECTION_MS = 300;

/**
 * Writes a report about the topic that it is sent: asks for one where there is none, streams a section at a time, and
 * files the report in an archive. All that it knows of a task is what the task holds, so that any replica can run the
 * next turn, or run this one again.
 */
@Injectable()
export class ReportAgent implements TurnExecutor {
  constructor(private readonly archive: ReportArchive) {}

  async execute(request: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
    const { turn, taskId, contextId, userMessage } = request;
    const status = (state: TaskState, text?: string) => publishStatus(bus, { taskId, contextId }, state, text);
    // The first event of a new task is the task itself; a follow-up goes on with the one there is.
    if (request.task === undefined) bus.publish(AgentEvent.task(newTask(taskId, contextId, userMessage)));
    else status(TaskState.TASK_STATE_WORKING);

    const topic = textOf(userMessage);
    // A question ends the turn. The answer may go to another replica.
    if (topic === '') return status(TaskState.TASK_STATE_INPUT_REQUIRED, 'What should the report be about?');

    for (const [index, title] of SECTIONS.entries()) {
      // A cancel, a lost lease and a shutdown abort the signal: stop at once, and let the error through.
      await pause(SECTION_MS, undefined, { signal: turn.signal });
      bus.publish(
        AgentEvent.artifactUpdate({
          taskId,
          contextId,
          artifact: {
            // The same in every attempt: a turn that is run again writes its report anew, not beside the old one.
            artifactId: `report-${userMessage.messageId}`,
            name: 'report',
            description: '',
            parts: [textPart(`${title}\n\nWhat there is to say about ${topic}.\n\n`)],
            metadata: undefined,
            extensions: [],
          },
          append: index > 0,
          lastChunk: index === SECTIONS.length - 1,
          metadata: undefined,
        }),
      );
    }

    // Recorded before it is called: whoever runs this turn again is given the number that is known, or files under the same key.
    const number = await turn.effect('file-report', { replay: 'idempotent' }, ({ idempotencyKey }) =>
      this.archive.file(idempotencyKey, topic),
    );
    status(TaskState.TASK_STATE_COMPLETED, `Filed as report ${number}.`);
  }

  /** The turn's signal has aborted before; there is nothing to clean up. */
  cancelTask(taskId: string, bus: ExecutionEventBus): Promise<void> {
    publishStatus(bus, { taskId, contextId: currentTurn().contextId }, TaskState.TASK_STATE_CANCELED);
    return Promise.resolve();
  }
}

interface TaskIds {
  readonly taskId: string;
  readonly contextId: string;
}

function newTask(id: string, contextId: string, userMessage: Message) {
  const status = { state: TaskState.TASK_STATE_WORKING, message: undefined, timestamp: new Date().toISOString() };
  return { id, contextId, status, artifacts: [], history: [userMessage], metadata: undefined };
}

function publishStatus(bus: ExecutionEventBus, ids: TaskIds, state: TaskState, text?: string): void {
  const message = text === undefined ? undefined : agentMessage(ids, text);
  const status = { state, message, timestamp: new Date().toISOString() };
  bus.publish(AgentEvent.statusUpdate({ ...ids, status, metadata: undefined }));
}

function agentMessage({ taskId, contextId }: TaskIds, text: string): Message {
  return {
    messageId: randomUUID(),
    contextId,
    taskId,
    role: Role.ROLE_AGENT,
    parts: [textPart(text)],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}

function textPart(value: string): Part {
  return { content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: 'text/plain' };
}

function textOf({ parts }: Message): string {
  return parts
    .flatMap(({ content }) => (content?.$case === 'text' ? [content.value] : []))
    .join('\n')
    .trim();
}
