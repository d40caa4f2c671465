import { isDeepStrictEqual } from 'node:util';
import { Message, Task, TaskState } from '@a2a-js/sdk';
import { InMemoryTaskStore, ResultManager, ServerCallContext } from '@a2a-js/sdk/server';
import fc from 'fast-check';
import { IDS, turn, type TaskChange } from '../../../../test/helpers/task-arbitraries.js';
import { applyEvent } from './apply-event.js';
import { beginTask, expandTaskEvent } from './expand-task-event.js';
import type { TaskEvent } from './task-event.js';
import { decodeEvent, encodeEvent } from './task-event.codec.js';

/** Two tasks are the same if clients are sent the same. */
const wire = (task: Task | undefined): unknown => (task ? JSON.parse(JSON.stringify(Task.toJSON(task))) : undefined);

/** Not Jest's equality, which stumbles over keys such as `constructor`; Jest only shows the difference. */
function expectSame(actual: Task | undefined, expected: Task | undefined): void {
  const [one, other] = [wire(actual), wire(expected)];
  if (isDeepStrictEqual(one, other)) return;
  expect(one).toEqual(other);
  throw new Error('The tasks differ in a key that Jest does not compare');
}

/** The log that the commit loop makes of what is published. */
function logOf(published: TaskChange[], userMessage: Parameters<typeof beginTask>[3]): TaskEvent[] {
  const log: TaskEvent[] = [];
  let task: Task | undefined;
  for (const change of published) {
    const events = eventsOf(change, task, userMessage);
    // Folded as it is when it comes from the database: nothing is shared with what was published.
    for (const event of events) task = applyEvent(task, decodeEvent(encodeEvent(event)));
    log.push(...events);
  }
  return log;
}

function eventsOf(
  change: TaskChange,
  task: Task | undefined,
  userMessage: Parameters<typeof beginTask>[3],
): TaskEvent[] {
  switch (change.kind) {
    case 'task':
      if (task) return expandTaskEvent(task, change.data, userMessage);
      return [{ kind: 'task', task: beginTask(change.data, IDS.taskId, IDS.contextId, userMessage) }];
    case 'statusUpdate':
      return [{ kind: 'statusUpdate', statusUpdate: change.data }];
    case 'artifactUpdate':
      return [{ kind: 'artifactUpdate', artifactUpdate: change.data }];
  }
}

const fold = (log: readonly TaskEvent[]): Task | undefined =>
  log.map(encodeEvent).map(decodeEvent).reduce<Task | undefined>(applyEvent, undefined);

async function bySdk(published: TaskChange[], userMessage: Parameters<typeof beginTask>[3]): Promise<Task | undefined> {
  const [store, context] = [new InMemoryTaskStore(), new ServerCallContext()];
  const manager = new ResultManager(store, context);
  manager.setContext(userMessage);
  for (const change of published) await manager.processEvent(change);
  return store.load(IDS.taskId, context);
}

describe('applyEvent', () => {
  it('O59 the folded log is the task that the SDK makes of the same events', async () => {
    await fc.assert(
      fc.asyncProperty(turn, async ({ userMessage, events }) => {
        expectSame(fold(logOf(events, userMessage)), await bySdk(events, userMessage));
      }),
      { numRuns: 150 },
    );
  }, 60_000);

  it('O59 the same at every step, not only at the end', async () => {
    await fc.assert(
      fc.asyncProperty(turn, async ({ userMessage, events }) => {
        for (let length = 1; length <= events.length; length += 1) {
          const published = events.slice(0, length);
          expectSame(fold(logOf(published, userMessage)), await bySdk(published, userMessage));
        }
      }),
      { numRuns: 25 },
    );
  }, 60_000);

  it('O5 after a terminal state nothing changes the task any more', () => {
    fc.assert(
      fc.property(turn, turn, (first, late) => {
        const task = fold(logOf(first.events, first.userMessage))!;
        task.status = { state: TaskState.TASK_STATE_COMPLETED, message: undefined, timestamp: undefined };
        const ended = JSON.stringify(wire(task));
        const [, ...rest] = logOf(late.events, late.userMessage);
        for (const event of rest) applyEvent(task, event);
        applyEvent(task, { kind: 'userMessage', userMessage: late.userMessage });
        expect(JSON.stringify(wire(task))).toBe(ended);
      }),
    );
  });

  it('the message of a follow-up is in the history, also under the id of an earlier message', () => {
    const message = (text: string) => ({ messageId: 'same', parts: [{ text }] });
    const begin: TaskEvent = { kind: 'task', task: Task.fromJSON({ id: 'task', history: [message('one')] }) };
    const task = fold([begin, { kind: 'userMessage', userMessage: Message.fromJSON(message('two')) }]);
    expect(wire(task)).toMatchObject({ history: [message('one'), message('two')] });
  });

  it('I5 events are not changed by folding them, then or later', () => {
    fc.assert(
      fc.property(turn, ({ userMessage, events }) => {
        const log = logOf(events, userMessage);
        const before = log.map(encodeEvent);
        log.reduce<Task | undefined>(applyEvent, undefined);
        expect(log.map(encodeEvent)).toEqual(before);
      }),
    );
  });

  it('I5 a log that does not begin with its task, or begins twice, is an error and not a guess', () => {
    const begin: TaskEvent = { kind: 'task', task: Task.fromJSON({ id: 'task' }) };
    const update: TaskEvent = {
      kind: 'statusUpdate',
      statusUpdate: { ...IDS, status: undefined, metadata: undefined },
    };
    expect(() => applyEvent(undefined, update)).toThrow('The event log begins with a statusUpdate');
    expect(() => applyEvent(applyEvent(undefined, begin), begin)).toThrow('Task task began twice');
  });
});

describe('expandTaskEvent', () => {
  it('a Task event that repeats what is stored sets nothing, and so ends nothing', () => {
    fc.assert(
      fc.property(turn, ({ userMessage, events }) => {
        const task = fold(logOf(events, userMessage))!;
        const repeated = Task.fromJSON(wire(task));
        expect(expandTaskEvent(task, repeated, userMessage)).toEqual([]);
      }),
    );
  });

  it('metadata of a Task event with a key that every object inherits is no repetition', () => {
    const metadata = JSON.parse('{"__proto__": {}}') as Record<string, unknown>;
    const stored = Task.fromJSON({ id: 'task', metadata: { k: 1 } });
    expect(expandTaskEvent(stored, { ...stored, metadata })).toEqual([{ kind: 'taskMerge', taskMerge: { metadata } }]);
  });
});
