import { type Artifact, type Message, type Part, Role, type Task, TaskState } from '@a2a-js/sdk';
import type { AgentExecutionEvent } from '@a2a-js/sdk/server';
import fc from 'fast-check';

/** The task that all of these are about. */
export const IDS = { taskId: 'task', contextId: 'context' };

/** Like the objects that code makes. */
const record = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record(model, { noNullPrototype: true });

/** Few ids, so that they meet. */
const messageIds = fc.constantFrom('m1', 'm2', 'm3', 'm4');
const artifactIds = fc.constantFrom('a1', 'a2', 'a3');

/** Names that objects have a meaning of their own for. */
const keys = fc.oneof(fc.constantFrom('k', 'l', '__proto__', 'constructor', 'toString'), fc.string({ maxLength: 4 }));

/** Text as JavaScript has it: with NULs and lone surrogates. */
export const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 8 }),
  fc.constantFrom('', '\0', 'a\0b', '\ud800', '\udc00 \ud83d\ude00', '\\u0000', '"\\', '\u2028\u2029'),
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 8 }).map((units) => String.fromCharCode(...units)),
);

/** What JSON can say, and nothing that it says otherwise (-0, undefined). */
export const json: fc.Arbitrary<unknown> = fc
  .jsonValue({ maxDepth: 2, depthSize: 'xsmall', stringUnit: 'binary' })
  .map((value) => JSON.parse(JSON.stringify(value)) as unknown);

export const metadata: fc.Arbitrary<Record<string, unknown> | undefined> = fc.option(
  fc.array(fc.tuple(keys, json), { maxLength: 3 }).map((entries) => Object.fromEntries(entries)),
  { nil: undefined },
);

const content: fc.Arbitrary<NonNullable<Part['content']>> = fc.oneof(
  text.map((value) => ({ $case: 'text' as const, value })),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => ({ $case: 'raw' as const, value: Buffer.from(bytes) })),
  fc.webUrl().map((value) => ({ $case: 'url' as const, value })),
  // The SDK's JSON has no data part that is null: it reads one as a part without content.
  json.filter((value) => value !== null).map((value) => ({ $case: 'data' as const, value })),
);

export const part: fc.Arbitrary<Part> = record({
  content,
  metadata,
  filename: text,
  mediaType: fc.constantFrom('', 'text/plain', 'application/octet-stream'),
});

const parts = fc.array(part, { minLength: 1, maxLength: 2 });
const uris = fc.array(fc.webUrl(), { maxLength: 2 });

/** A message whose id is its identity: two with one id are one. */
export const messagesById: fc.Arbitrary<Map<string, Message>> = fc
  .array(
    record({
      parts,
      metadata,
      extensions: uris,
      referenceTaskIds: fc.array(text, { maxLength: 2 }),
      role: fc.constantFrom(Role.ROLE_USER, Role.ROLE_AGENT),
    }),
    { minLength: 4, maxLength: 4 },
  )
  .map((made) => new Map(made.map((it, at) => [`m${at + 1}`, { ...it, ...IDS, messageId: `m${at + 1}` }])));

export const artifact: fc.Arbitrary<Artifact> = record({
  artifactId: artifactIds,
  name: text,
  description: text,
  parts,
  metadata,
  extensions: uris,
});

const live = fc.constantFrom(
  TaskState.TASK_STATE_SUBMITTED,
  TaskState.TASK_STATE_WORKING,
  TaskState.TASK_STATE_INPUT_REQUIRED,
  TaskState.TASK_STATE_AUTH_REQUIRED,
);
const terminal = fc.constantFrom(
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
  TaskState.TASK_STATE_REJECTED,
);

const timestamp = fc
  .date({ min: new Date(0), max: new Date('2100-01-01'), noInvalidDate: true })
  .map((date) => date.toISOString());

/** What executors publish on one task. */
export type TaskChange = Exclude<AgentExecutionEvent, { kind: 'message' }>;

function eventsWith(messages: Map<string, Message>) {
  const message = messageIds.map((id) => messages.get(id)!);
  const statusIn = (state: fc.Arbitrary<TaskState>) =>
    record({ state, message: fc.option(message, { nil: undefined }), timestamp });
  const task = (state: fc.Arbitrary<TaskState>): fc.Arbitrary<Task> =>
    record({
      id: fc.constant(IDS.taskId),
      contextId: fc.constant(IDS.contextId),
      status: statusIn(state),
      metadata,
      artifacts: fc.uniqueArray(artifact, { maxLength: 3, selector: ({ artifactId }) => artifactId }),
      history: fc.uniqueArray(message, { maxLength: 4, selector: ({ messageId }) => messageId }),
    });
  const statusUpdate = (state: fc.Arbitrary<TaskState>): fc.Arbitrary<TaskChange> =>
    record({ status: statusIn(state), metadata }).map((it) => ({
      kind: 'statusUpdate' as const,
      data: { ...IDS, ...it },
    }));
  const artifactUpdate: fc.Arbitrary<TaskChange> = record({
    artifact,
    append: fc.boolean(),
    lastChunk: fc.boolean(),
    metadata,
  }).map((it) => ({ kind: 'artifactUpdate' as const, data: { ...IDS, ...it } }));
  const taskEvent = (state: fc.Arbitrary<TaskState>): fc.Arbitrary<TaskChange> =>
    task(state).map((data) => ({ kind: 'task' as const, data }));
  return { message, statusUpdate, artifactUpdate, taskEvent };
}

/** What an executor may publish in one turn: a Task, then anything, and perhaps an end. */
export const turn: fc.Arbitrary<{ userMessage: Message; events: TaskChange[] }> = messagesById.chain((messages) => {
  const { message, statusUpdate, artifactUpdate, taskEvent } = eventsWith(messages);
  const anything = fc.oneof(
    { weight: 3, arbitrary: artifactUpdate },
    { weight: 2, arbitrary: statusUpdate(live) },
    { weight: 2, arbitrary: taskEvent(live) },
  );
  return record({
    userMessage: message,
    events: fc
      .tuple(
        taskEvent(live),
        fc.array(anything, { maxLength: 10 }),
        fc.option(fc.oneof(statusUpdate(terminal), taskEvent(terminal)), { nil: undefined }),
      )
      .map(([first, rest, end]) => [first, ...rest, ...(end ? [end] : [])]),
  });
});
