import { randomUUID } from 'node:crypto';
import { getTask, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { type AgentApp, AgentAppFixture, TRANSPORTS } from './agent-app.fixture.js';
import { type Answer, answerOf, callBody, messageBody, post } from './raw-requests.js';
import { askingAgent } from './agents.js';

const fixture = new AgentAppFixture();

/** Nothing is half written, and the app lives. */
async function expectUntouched(app: AgentApp, before: unknown): Promise<void> {
  expect(await fixture.countRows()).toEqual(before);
  expect(stateName(await send(await app.client(), 'end'))).toBe('COMPLETED');
}

const badIds: [string, string][] = [
  ['longer than 512 bytes', 'x'.repeat(513)],
  ['with a lone surrogate', 'a\ud800b'],
];

describe.each(TRANSPORTS)('Bad requests over %s', (transport) => {
  let app: AgentApp;
  let before: unknown;

  beforeEach(async () => {
    app = await fixture.start({ ...askingAgent, cluster: { transports: { bodyLimitBytes: 1_000_000 } } });
    before = await fixture.countRows();
  });

  /** Sends and expects a malformed request, in the transport's form. */
  const expectMalformed = ({ status, reason, code, headers }: Answer): void => {
    expect(status).toBe(transport === 'JSONRPC' ? 200 : 400);
    expect(headers.get('content-type')).toContain('application/json');
    if (transport === 'JSONRPC') expect(code).toBe(-32602);
    else expect(reason).toBe('INVALID_PARAMS');
  };

  test.each(badIds)('an id that is %s is malformed, wherever it stands', async (_what, id) => {
    for (const field of ['messageId', 'contextId', 'taskId']) {
      expectMalformed(await post(app, transport, messageBody(transport, { [field]: id })));
    }
    expectMalformed(await post(app, transport, messageBody(transport, { referenceTaskIds: ['fine', id] })));
    if (transport === 'JSONRPC') {
      for (const method of ['GetTask', 'CancelTask', 'SubscribeToTask']) {
        expectMalformed(await post(app, transport, callBody(transport, method, { id })));
      }
    } else if (!/\p{Surrogate}/u.test(id)) {
      const path = `/a2a/rest/tasks/${encodeURIComponent(id)}`;
      expectMalformed(await answerOf(await fetch(app.url + path, { headers: { 'a2a-version': '1.0' } })));
      for (const verb of ['cancel', 'subscribe']) {
        expectMalformed(await post(app, transport, '{}', { path: `${path}:${verb}` }));
      }
    }
    await expectUntouched(app, before);
  });

  test('an id of 512 bytes is fine', async () => {
    const client = await app.client({ transport });
    const ids = { messageId: transport.padEnd(512, 'x'), contextId: 'ä'.repeat(256) };
    const { id: taskId, contextId } = await send(client, 'ask', ids);
    expect(contextId).toBe(ids.contextId);
    expect(stateName(await send(client, 'end', { taskId, contextId }))).toBe('COMPLETED');
  });

  test.each([
    ['no messageId', { messageId: undefined }],
    ['an empty messageId', { messageId: '' }],
    ['a messageId that is a number', { messageId: 7 }],
  ])('%s is malformed', async (_what, fields) => {
    const answer = await post(app, transport, messageBody(transport, fields));
    if (fields.messageId === 7)
      expect(answer.status).toBeLessThan(500); // the SDK's codec makes a text of it
    else expectMalformed(answer);
  });

  test.each([
    ['an array', '[]'],
    ['a number', '5'],
    ['null', 'null'],
    ['a text', '"hello"'],
    ['a message that is a number', JSON.stringify({ message: 5 })],
    ['a message that is null', JSON.stringify({ message: null })],
    ['a part that is null', JSON.stringify({ message: { messageId: 'm', parts: [null] } })],
  ])('%s for a body, or for its parameters, is answered with an error, and leaves nothing', async (_what, text) => {
    const call = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":${text}}`;
    for (const body of transport === 'JSONRPC' ? [text, call] : [text]) {
      const answer = await post(app, transport, body);
      expect([answer.text, answer.code]).toEqual([expect.stringContaining('error'), expect.any(Number)]);
    }
    await expectUntouched(app, before);
  });

  test.each([
    ['no JSON', '{"jsonrpc": '],
    ['JSON with a NUL in it', '{"jsonrpc":"2.0\0"}'],
    ['bytes', Buffer.from([0xff, 0xfe, 0x00])],
  ])('a body that is %s is a parse error', async (_what, body) => {
    const { status, code, reason, headers } = await post(app, transport, body);
    if (transport === 'JSONRPC') expect([status, code]).toEqual([200, -32700]);
    else {
      expect([status, code, reason]).toEqual([400, 400, 'INVALID_PARAMS']);
      expect(headers.get('content-type')).toContain('application/json');
    }
    await expectUntouched(app, before);
  });

  test('values that are not of their type, whatever the codec makes of them, are malformed', async () => {
    for (const tenant of ['{}', '{"toString":1,"valueOf":2}', '[]', '7']) {
      const body = `{"tenant":${tenant},"message":{"messageId":"m","parts":[{"raw":{"$case":"text","value":{}}}]}}`;
      const call = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":${body}}`;
      expectMalformed(await post(app, transport, transport === 'JSONRPC' ? call : body));
    }
    await expectUntouched(app, before);
  });

  test('values nested deeper than 256 levels are refused in the form of the transport', async () => {
    const deep = `${'{"a":'.repeat(300)}1${'}'.repeat(300)}`;
    const body = `{"message":{"messageId":"m","parts":[{"text":"hello"}],"metadata":${deep}}}`;
    const call = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":${body}}`;
    const { status, code, reason, text } = await post(app, transport, transport === 'JSONRPC' ? call : body);
    expect(text).toContain('nested deeper than 256 levels');
    if (transport === 'JSONRPC') expect([status, code]).toEqual([200, -32600]);
    else expect([status, reason]).toEqual([400, 'INVALID_PARAMS']);
    await expectUntouched(app, before);
  });

  test('keys that other objects inherit, or that stand twice, are data, and poison nothing', async () => {
    const keys = '"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"k":1,"k":2';
    const parts = `[{"text":"hello","metadata":{${keys}}},{"data":{${keys}}}]`;
    const body = `{${keys},"message":{"messageId":"proto ${transport}","parts":${parts},"metadata":{${keys}}}}`;
    const call = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":${body}}`;
    const { status, text } = await post(app, transport, transport === 'JSONRPC' ? call : body);
    expect([status, text]).toEqual([200, expect.stringContaining('TASK_STATE_INPUT_REQUIRED')]);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  test('an empty body is answered with an error', async () => {
    for (const body of ['', undefined]) {
      const { status, code } = await post(app, transport, body);
      expect(code).toEqual(expect.any(Number));
      expect(status).toBeLessThan(500);
    }
    await expectUntouched(app, before);
  });

  test('a charset beside the content type is fine; REST takes its own media type too', async () => {
    const types = ['application/json; charset=utf-8', ...(transport === 'HTTP+JSON' ? ['application/a2a+json'] : [])];
    for (const contentType of types) {
      const body = messageBody(transport, { messageId: randomUUID() });
      const { status, text } = await post(app, transport, body, { contentType });
      expect([status, text]).toEqual([200, expect.stringContaining('TASK_STATE_INPUT_REQUIRED')]);
    }
  });

  test('a charset that is none, or a compressed body that is none, is answered in the form of the transport', async () => {
    const body = messageBody(transport);
    const answers = [
      await post(app, transport, body, { contentType: 'application/json; charset=klingon' }),
      await post(app, transport, body, { headers: { 'content-encoding': 'gzip' } }),
      await post(app, transport, body, { headers: { 'content-encoding': 'rot13' } }),
    ];
    for (const { status, code } of answers) {
      expect(status).toBeLessThan(500);
      expect(code).toEqual(expect.any(Number));
    }
    await expectUntouched(app, before);
  });

  test('a body above bodyLimitBytes is 413, in the form of the transport', async () => {
    const body = messageBody(transport, { parts: [{ text: 'x'.repeat(1_000_000) }] });
    const { status, code, reason, text } = await post(app, transport, body);
    expect(status).toBe(413);
    expect(text).toContain('1000000');
    if (transport === 'JSONRPC') expect(code).toBe(-32600);
    else expect([code, reason]).toEqual([413, 'INVALID_PARAMS']);
    await expectUntouched(app, before);
  });

  test('a body above bodyLimitBytes that does not say its length is 413 too', async () => {
    const chunk = Buffer.from(' '.repeat(100_000));
    const body = new ReadableStream({
      start(controller) {
        for (let at = 0; at < 11; at += 1) controller.enqueue(chunk);
        controller.close();
      },
    });
    const path = transport === 'JSONRPC' ? '/a2a/jsonrpc' : '/a2a/rest/message:send';
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
    const response = await fetch(app.url + path, { method: 'POST', headers, body, duplex: 'half' });
    expect((await answerOf(response)).status).toBe(413);
    await expectUntouched(app, before);
  });

  test('a body just below bodyLimitBytes, far above what Nest takes, is fine', async () => {
    const body = messageBody(transport, { messageId: randomUUID(), parts: [{ text: 'x'.repeat(999_000) }] });
    expect((await post(app, transport, body)).status).toBe(200);
  });

  test('another HTTP method on the endpoint is 404 or 405, and no hanging request', async () => {
    const path = transport === 'JSONRPC' ? '/a2a/jsonrpc' : '/a2a/rest/message:send';
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH']) {
      const response = await fetch(app.url + path, { method });
      await response.text();
      expect([404, 405]).toContain(response.status);
    }
  });

  test('A2A-Version may stand in the query instead', async () => {
    const good = messageBody(transport, { messageId: randomUUID() });
    const path = transport === 'JSONRPC' ? '/a2a/jsonrpc' : '/a2a/rest/message:send';
    const inQuery = (version: string): Promise<Answer> =>
      post(app, transport, good, { version: null, path: `${path}?A2A-Version=${version}` });
    expect((await inQuery('1.0')).text).toContain('TASK_STATE_INPUT_REQUIRED');
    expect((await inQuery('2.0')).text).toContain('VERSION_NOT_SUPPORTED');
    if (transport === 'JSONRPC') return;
    const list = await fetch(`${app.url}/a2a/rest/tasks?A2A-Version=1.0&pageSize=1`);
    expect([list.status, await list.json()]).toMatchObject([200, { pageSize: 1 }]);
  });

  test('a tenant with a NUL in it is malformed, in every call', async () => {
    const client = await app.client({ transport });
    const { id } = await send(client, 'ask');
    if (transport === 'JSONRPC') {
      const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] };
      for (const [method, params] of [
        ['SendMessage', { message }],
        ['SendStreamingMessage', { message }],
        ['GetTask', { id }],
        ['CancelTask', { id }],
        ['SubscribeToTask', { id }],
        ['ListTasks', {}],
      ] as const) {
        expectMalformed(await post(app, transport, callBody(transport, method, { ...params, tenant: 'a\0b' })));
      }
    } else {
      const path = '/a2a/rest/a%00b';
      expectMalformed(await post(app, transport, messageBody(transport), { path: `${path}/message:send` }));
      for (const url of [`${path}/tasks/${id}`, `${path}/tasks`]) {
        expectMalformed(await answerOf(await fetch(app.url + url, { headers: { 'a2a-version': '1.0' } })));
      }
    }
    expect(stateName(await getTask(client, id))).toBe('INPUT_REQUIRED');
  });

  test('a path with broken escapes is answered, not crashed on', async () => {
    const path = transport === 'JSONRPC' ? '/a2a/jsonrpc/%E0%A4%A' : '/a2a/rest/tasks/%E0%A4%A';
    const response = await fetch(app.url + path, { headers: { 'a2a-version': '1.0' } });
    await response.text();
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(response.status).toBeLessThan(500);
  });
});
