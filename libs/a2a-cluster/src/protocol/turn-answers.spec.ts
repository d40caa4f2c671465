import { optionsWith } from '../../../../test/helpers/options.js';
import { type StreamResponse, TaskState } from '@a2a-js/sdk';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import type { TaskEvent, VersionedTaskEvent } from '../tasks/task-event.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import { Deferred } from '../async/deferred.js';
import type { TurnOutcome, TurnProgress } from '../turns/turn-outcome.js';
import { SettledTasks } from './settled-tasks.js';
import { TurnAnswers } from './turn-answers.js';

const IDS = { taskId: 't', contextId: 'c' };

const working: TaskEvent = {
  kind: 'statusUpdate',
  statusUpdate: {
    ...IDS,
    status: { state: TaskState.TASK_STATE_WORKING, message: undefined, timestamp: undefined },
    metadata: undefined,
  },
};

const said = (messageId: string) => ({
  messageId,
  ...IDS,
  role: 1,
  parts: [],
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
});

/** What a turn has brought, and then the next one, in one batch: as a follower finds it that comes late. */
const EVENTS: TaskEvent[] = [working, working, { kind: 'userMessage', userMessage: said('next') }, working, working];
const BATCH = EVENTS.map((event, at): VersionedTaskEvent => ({ version: 2 + at, event, bytes: 0 }));

const stream = {
  async *batches() {
    yield await Promise.resolve(BATCH);
  },
} as unknown as TaskEventStream;

/** A follow-up's turn that has begun at version 1 and is over, though nobody here has heard of it yet. */
function turnOf(published: TaskState, reply?: ReturnType<typeof said>) {
  const ended = new Deferred<TurnOutcome>();
  const turn: TurnProgress = {
    opened: Promise.resolve({ kind: 'task', taskNo: 1, version: 1, task: undefined }),
    authRequired: new Deferred<never>().promise,
    outcome: ended.promise,
    reply,
    published,
    version: 3,
  };
  return { turn, ended };
}

describe('The stream of a turn', () => {
  const answers = new TurnAnswers(
    undefined as unknown as VersionedTaskStore,
    stream,
    new SettledTasks(undefined as unknown as VersionedTaskStore, stream, optionsWith()),
  );

  async function responsesOf(turn: TurnProgress, onFirst: () => void = () => undefined): Promise<StreamResponse[]> {
    const responses: StreamResponse[] = [];
    for await (const batch of answers.streamed(turn, new AbortController().signal, () =>
      Promise.reject(new Error('nothing is large')),
    )) {
      responses.push(...batch);
      onFirst();
    }
    return responses;
  }

  it('I5 ends before the next turn, although its own end is heard of later', async () => {
    const { turn, ended } = turnOf(TaskState.TASK_STATE_WORKING, said('reply'));
    const end: TurnOutcome = { kind: 'message', message: said('reply') };
    const responses = await responsesOf(turn, () => ended.resolve(end));
    expect(responses.map(({ payload }) => payload?.$case)).toEqual(['statusUpdate', 'statusUpdate', 'message']);
  });

  it('I5 goes on with the next turn where it waits for authentication', async () => {
    const { turn } = turnOf(TaskState.TASK_STATE_AUTH_REQUIRED);
    expect(await responsesOf(turn)).toHaveLength(4);
  });
});
