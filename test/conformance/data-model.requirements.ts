import type { Served } from './set-ups.fixture.js';
import type { WirePart } from './wire.types.js';

const STATE = /^TASK_STATE_(SUBMITTED|WORKING|COMPLETED|FAILED|CANCELED|INPUT_REQUIRED|REJECTED|AUTH_REQUIRED)$/;
const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const CONTENTS = ['text', 'raw', 'url', 'data'];

const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

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
}
