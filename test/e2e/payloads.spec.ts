import { Message, type Part, type Task, TaskState } from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';
import { collect, getTask, send, stream, userMessage } from '../../tools/harness/client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { AgentAppFixture, type AgentBehaviour, TRANSPORTS } from './agent-app.fixture.js';
import {
  artifactOf,
  completed,
  inputRequired,
  publishArtifact,
  publishStatus,
  rawPart,
  textOf,
  textPart,
} from './agent-events.js';

/** Millions of objects, on a machine whose cores are all busy with something else. */
const SLOW_MS = 120_000;

const fixture = new AgentAppFixture();

/** Gives back, as an artifact and in its status, what it got. */
const echo: AgentBehaviour = {
  execute: (context, bus) => {
    publishArtifact(bus, context, artifactOf('echo', ...context.userMessage.parts));
    completed(bus, context, textOf(context.userMessage));
  },
};

async function sendParts(client: Client, ...parts: Part[]): Promise<Task> {
  const message: Message = { ...userMessage(''), parts };
  const result = await client.sendMessage({ tenant: '', message, configuration: undefined, metadata: undefined });
  return result as Task;
}

/** Parts as JSON, in which bytes stand as base64 whatever class holds them. */
const asJson = (parts: Part[] | undefined): unknown =>
  (Message.toJSON({ ...userMessage(''), parts: parts ?? [] }) as { parts: unknown }).parts;

const bytesOf = (part: Part | undefined): Buffer => Buffer.from(part?.content?.value as Uint8Array);

describe.each(TRANSPORTS)('Payloads over %s', (transport) => {
  test.each([
    ['NUL characters', 'a\0b\0'],
    ['emoji and other planes', 'Grüße 👩‍👩‍👧‍👦 𝄞 مرحبا 漢字'],
    ['control characters and quotes', '\u0001\u001f\u007f "\\" \r\n\t \u2028\u2029'],
    ['what looks like escapes', String.raw`\u0000 \x00 \\u0000 %00 &#0;`],
    ['a byte order mark', '\ufefftext\ufffe'],
  ])('text with %s is stored, streamed and read back as it was', async (_what, text) => {
    const app = await fixture.start(echo);
    const client = await app.client({ transport });
    const responses = await collect(stream(client, text));
    const [first, artifact, status] = responses.map(({ payload }) => payload);
    expect(first?.$case === 'task' && first.value.history.map(textOf)).toEqual([text]);
    expect(artifact?.$case === 'artifactUpdate' && artifact.value.artifact?.parts[0]?.content?.value).toBe(text);
    expect(status?.$case === 'statusUpdate' && textOf(status.value.status?.message)).toBe(text);
    const stored = await getTask(client, (first?.value as Task).id);
    expect(stored.history.map(textOf)).toEqual([text, text]);
    expect(stored.artifacts[0]?.parts[0]?.content?.value).toBe(text);
  });

  test('a lone surrogate in a text is no reason to fail', async () => {
    const app = await fixture.start(echo);
    const client = await app.client({ transport });
    const task = await send(client, 'a\ud800b');
    expect(stateName(task)).toBe('COMPLETED');
    expect(stateName(await getTask(client, task.id))).toBe('COMPLETED');
  });

  test('bytes of every value come back as they were, from the log, the snapshot and another replica', async () => {
    const bytes = Buffer.from(Array.from({ length: 1024 }, (_, at) => at % 256));
    const [a, b] = await fixture.startTwo({
      execute: async (context, bus) => {
        publishArtifact(bus, context, artifactOf('echo', ...context.userMessage.parts));
        await context.turn.flush();
        publishArtifact(bus, context, artifactOf('echo', rawPart(bytes.subarray(1, 3))), true);
        inputRequired(bus, context);
      },
    });
    const client = await a.client({ transport });
    const { id } = await sendParts(client, rawPart(bytes), textPart('and text'));
    for (const at of [client, await b.client({ transport })]) {
      const { artifacts, history } = await getTask(at, id);
      expect(bytesOf(history[0]?.parts[0])).toEqual(bytes);
      expect(bytesOf(artifacts[0]?.parts[0])).toEqual(bytes);
      expect(bytesOf(artifacts[0]?.parts[2])).toEqual(bytes.subarray(1, 3));
    }
    const recording = Recording.subscribe(await b.client({ transport }), id);
    expect(bytesOf((await recording.task()).artifacts[0]?.parts[0])).toEqual(bytes);
    await recording.disconnect();
  });

  test('data, URLs and metadata of every kind come back as they were', async () => {
    const app = await fixture.start(echo);
    const client = await app.client({ transport });
    const data = { text: 'a\0b', list: [1, 2.5, null, true, { deep: ['👍'] }], 'odd key \0': '', empty: {} };
    const parts: Part[] = [
      {
        ...textPart(''),
        content: { $case: 'data', value: data },
        metadata: { more: data },
        mediaType: 'application/json',
      },
      { ...textPart(''), content: { $case: 'url', value: 'https://example.com/?q=ä b' }, filename: 'näme.txt' },
      ...[0, false, '', []].map((value): Part => ({ ...textPart(''), content: { $case: 'data', value } })),
      textPart(''),
    ];
    const task = await sendParts(client, ...parts);
    const stored = await getTask(client, task.id);
    expect(asJson(stored.artifacts[0]?.parts)).toEqual(asJson(parts));
    expect(asJson(stored.history[0]?.parts)).toEqual(asJson(parts));
  });

  // Several copies of what is sent are stored at once; on a busy machine that takes longer than a short lease allows.
  const leases = { heartbeatIntervalMs: 15_000, ttlMs: 60_000 };

  test('a message of 5 MB is taken and read back equal', async () => {
    const app = await fixture.start({ execute: (context, bus) => completed(bus, context), cluster: { leases } });
    const client = await app.client({ transport });
    const text = 'äx👍 '.repeat(650_000);
    expect(Buffer.byteLength(text)).toBeGreaterThan(5_000_000);
    const { id } = await send(client, text);
    expect(textOf((await getTask(client, id)).history[0]) === text).toBe(true);
  });

  test(
    'a message of 100,000 parts is taken, stored and given back where the limits are raised',
    async () => {
      const requests = { maxParts: 100_000, maxValues: 1_000_000 };
      const app = await fixture.start({ ...echo, cluster: { leases, requests } });
      const client = await app.client({ transport });
      const parts = Array.from({ length: 100_000 }, (_, at) => textPart(String(at)));
      const { id } = await sendParts(client, ...parts);
      const stored = await getTask(client, id);
      expect(asJson(stored.artifacts[0]?.parts)).toEqual(asJson(parts));
    },
    SLOW_MS,
  );

  test("an executor's error with a NUL in its message fails the task with it", async () => {
    const app = await fixture.start({ execute: () => Promise.reject(new Error('a\0b')) });
    const task = await send(await app.client({ transport }), 'hello');
    expect([stateName(task), textOf(task.status?.message)]).toEqual(['FAILED', expect.stringContaining('a\0b')]);
  });

  test('a status for which the executor gave no time has one', async () => {
    const app = await fixture.start({
      execute: (context, bus) => {
        publishStatus(bus, context, TaskState.TASK_STATE_WORKING);
        completed(bus, context);
      },
    });
    const task = await send(await app.client({ transport }), 'hello');
    expect(Date.parse(task.status?.timestamp ?? '')).not.toBeNaN();
  });
});
