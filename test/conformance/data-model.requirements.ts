import { randomUUID } from 'node:crypto';
import type { Served } from './set-ups.fixture.js';
import { messageOf } from './wire.client.js';
import type { WirePart } from './wire.types.js';

const STATE = /^TASK_STATE_(SUBMITTED|WORKING|COMPLETED|FAILED|CANCELED|INPUT_REQUIRED|REJECTED|AUTH_REQUIRED)$/;
const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const CONTENTS = ['text', 'raw', 'url', 'data'];

const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

/** Every key of an object and of what is in it, but not of what users put there. */
function keysOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(keysOf);
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'metadata' || key === 'data' ? [key] : [key, ...keysOf(inner)],
  );
}

/** The objects as they are on the wire. */
export function dataModelRequirements(served: Served): void {
  test('DM-TASK-001, -002, DM-STATUS-001, DM-SERIAL-002, -003, -004 a task has its fields, in their forms', async () => {
    for (const prefix of ['tck-complete-task', 'tck-input-required', 'tck-reject-task', 'tck-artifact-text']) {
      const task = await served.client.task(prefix);
      expect(task).toMatchObject({
        id: matching(/\S/),
        contextId: matching(/\S/),
        status: { state: matching(STATE), timestamp: matching(UTC) },
      });
      expect((await served.client.call('GetTask', { id: task.id })).result).toEqual(task);
    }
  });

  test('DM-MSG-001, -002 a message has its fields, in their forms', async () => {
    const reply = (await served.client.send('tck-message-response')).result.message;
    const { status, history = [] } = await served.client.task('tck-complete-task');
    for (const message of [reply, status.message, ...history]) {
      expect(message).toMatchObject({
        messageId: matching(/\S/),
        role: matching(/^ROLE_(USER|AGENT)$/),
        parts: [{ text: matching(/\S/) }],
      });
    }
    expect(history.map(({ role }) => role)).toEqual(['ROLE_USER', 'ROLE_AGENT']);
  });

  const parts: [string, WirePart][] = [
    ['tck-artifact-text', { text: 'Generated text content', mediaType: 'text/plain' }],
    ['tck-artifact-file', { raw: 'dGNr', mediaType: 'text/plain', filename: 'output.txt' }],
    [
      'tck-artifact-file-url',
      { url: 'https://example.com/output.txt', mediaType: 'text/plain', filename: 'output.txt' },
    ],
    ['tck-artifact-data', { data: { key: 'value', count: 42 }, mediaType: 'application/json' }],
  ];

  test.each(parts)('DM-ART-001, DM-PART-001 the artifact of %s has its id and one content', async (prefix, part) => {
    const { artifacts = [] } = await served.client.task(prefix);
    expect(artifacts).toMatchObject([{ artifactId: matching(/\S/), parts: [part] }]);
    const [given = {}] = artifacts[0]!.parts;
    expect(Object.keys(given).filter((key) => CONTENTS.includes(key))).toHaveLength(1);
  });

  test('DM-SERIAL-001 names are in camel case, whatever is answered', async () => {
    const { id } = await served.client.task('tck-input-required');
    const answers = [
      await served.client.send('tck-artifact-file', { taskId: id }),
      await served.client.send('tck-message-response'),
      await served.client.call('ListTasks', { includeArtifacts: true }),
      await served.client.call('GetTask', { id: randomUUID() }),
    ];
    const keys = answers.flatMap(({ body }) => keysOf(body));
    expect(keys).toContain('contextId');
    expect(keys.filter((key) => !/^@?[a-z][a-zA-Z0-9]*$/.test(key))).toEqual([]);
  });

  test('DM-SERIAL-005 fields that nobody knows are ignored', async () => {
    const message = { ...messageOf('tck-complete-task'), colour: 'blue', nested: { colours: [1] } };
    const { result } = await served.client.call('SendMessage', { message, size: 42 });
    expect(result).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } });
  });
}
