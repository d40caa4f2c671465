import { type Task, TaskState } from '@a2a-js/sdk';
import type { AgentExecutionEvent, ExecutionEventBus } from '@a2a-js/sdk/server';
import { textOf, textPart } from '../harness/text.js';
import { EventNumbers, TurnPublisher } from './turn.publisher.js';

function publisherAfter(task: Task | undefined): { publisher: TurnPublisher; published: AgentExecutionEvent[] } {
  const published: AgentExecutionEvent[] = [];
  const bus = { publish: (event: AgentExecutionEvent) => void published.push(event) } as ExecutionEventBus;
  return { publisher: new TurnPublisher(bus, 'task-1', 'context-1', EventNumbers.after(task)), published };
}

describe('TurnPublisher', () => {
  it('numbers the events of a new task 1, 2, 3, whatever their kind', () => {
    const { publisher, published } = publisherAfter(undefined);
    const chunk = { artifactId: 'a', name: 'stream', text: 'one', first: true, last: false };
    publisher.status(TaskState.TASK_STATE_WORKING);
    publisher.chunk(chunk);
    publisher.chunk({ ...chunk, text: 'two', first: false, last: true });
    publisher.reply('bye');

    expect(published.map(({ kind, data }) => [kind, data.metadata])).toEqual([
      ['statusUpdate', { n: 1 }],
      ['artifactUpdate', { n: 2 }],
      ['artifactUpdate', { n: 3 }],
      ['message', { n: 4 }],
    ]);
    expect(published.slice(1, 3).map(({ data }) => data)).toMatchObject([
      { taskId: 'task-1', contextId: 'context-1', append: false, lastChunk: false },
      { taskId: 'task-1', contextId: 'context-1', append: true, lastChunk: true },
    ]);
  });

  it('goes on counting where the task stands', () => {
    const { publisher, published } = publisherAfter({ metadata: { n: 41 } } as unknown as Task);
    publisher.status(TaskState.TASK_STATE_COMPLETED, 'done');
    expect(published[0]?.data).toMatchObject({
      metadata: { n: 42 },
      status: { state: TaskState.TASK_STATE_COMPLETED },
    });
  });
});

describe('TurnPublisher of a turn', () => {
  it('says which attempt published an event, and under which fencing token once there is one', () => {
    const published: AgentExecutionEvent[] = [];
    const bus = { publish: (event: AgentExecutionEvent) => void published.push(event) } as ExecutionEventBus;
    const turn: { attempt: number; fencingToken: number | undefined } = { attempt: 2, fencingToken: undefined };
    const publisher = new TurnPublisher(bus, 'task-1', 'context-1', EventNumbers.after(undefined), turn);
    publisher.status(TaskState.TASK_STATE_WORKING);
    turn.fencingToken = 7;
    publisher.status(TaskState.TASK_STATE_COMPLETED);

    expect(published.map(({ data }) => data.metadata)).toEqual([
      { n: 1, attempt: 2 },
      { n: 2, attempt: 2, fencingToken: 7 },
    ]);
  });
});

describe('textOf', () => {
  it('joins the text parts of a message, a line each', () => {
    const data = { ...textPart(''), content: { $case: 'data', value: { x: 1 } } } as const;
    expect(
      textOf({ parts: [textPart('say one'), data, textPart('say two')] } as unknown as Parameters<typeof textOf>[0]),
    ).toBe('say one\nsay two');
    expect(textOf(undefined)).toBe('');
  });
});
