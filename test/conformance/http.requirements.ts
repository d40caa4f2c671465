import { randomUUID } from 'node:crypto';
import { TRANSPORTS } from '../e2e/agent-app.fixture.js';
import { HttpClient } from './http.client.js';
import { OPERATIONS, type Served } from './set-ups.fixture.js';
import { messageOf } from './wire.client.js';

/** Every key of an object and of what is in it, but not of what users put there. */
function keysOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(keysOf);
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'metadata' || key === 'data' ? [key] : [key, ...keysOf(inner)],
  );
}

/** What is of JSON-RPC and HTTP+JSON alone: JSON, media types, paths, methods and server-sent events. */
export function httpRequirements(served: Served): void {
  const rpc = (): HttpClient => new HttpClient(served.url, 'JSONRPC');
  const rest = (): HttpClient => new HttpClient(served.url, 'HTTP+JSON');
  const mediaTypeOf = ({ headers }: { headers: Headers }) => headers.get('content-type')?.split(';')[0];

  /** Posts as it stands. */
  const post = (path: string, body: unknown): Promise<Response> =>
    fetch(served.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
      body: JSON.stringify(body),
    });

  describe.each(TRANSPORTS)('%s, as JSON over HTTP', (transport) => {
    const client = (): HttpClient => new HttpClient(served.url, transport);

    test('DM-SERIAL-001 names are in camel case, whatever is answered', async () => {
      const { id } = await client().task('tck-input-required');
      const answers = [
        await client().send('tck-artifact-file', { taskId: id }),
        await client().send('tck-message-response'),
        await client().call('ListTasks', { includeArtifacts: true }),
        await client().call('GetTask', { id: randomUUID() }),
      ];
      const keys = answers.flatMap(({ body }) => keysOf(body));
      expect(keys).toContain('contextId');
      expect(keys.filter((key) => !/^@?[a-z][a-zA-Z0-9]*$/.test(key))).toEqual([]);
    });

    test('DM-SERIAL-005 fields that nobody knows are ignored', async () => {
      const message = { ...messageOf('tck-complete-task'), colour: 'blue', nested: { colours: [1] } };
      const { result } = await client().call('SendMessage', { message, size: 42 });
      expect(result).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } });
    });

    test('JSONRPC-ERR-001, HTTP_JSON-ERR-001 an error has the form of its binding', async () => {
      const members = transport === 'JSONRPC' ? ['code', 'data', 'message'] : ['code', 'details', 'message', 'status'];
      for (const answer of [
        await client().call('GetTask', { id: randomUUID() }),
        await client().call('SendMessage', {}),
        await client().call('GetExtendedAgentCard'),
        await client().with({ 'a2a-version': '99.0' }).send('tck-complete-task'),
      ]) {
        expect(Object.keys((answer.body as { error: object }).error).sort()).toEqual(members);
        expect(mediaTypeOf(answer)).toBe('application/json');
      }
    });

    test.each(['text/plain', 'application/xml', 'multipart/form-data; boundary=x'])(
      'CORE-ERR-001, JSONRPC-ERR-002, HTTP_JSON-STATUS-001 a body that is %s, which nobody reads, is an error',
      async (type) => {
        const { error, status } = await client().with({ 'content-type': type }).send('tck-complete-task');
        expect(error?.reason).toBe('CONTENT_TYPE_NOT_SUPPORTED');
        expect([error?.code, status]).toEqual(transport === 'JSONRPC' ? [-32005, 200] : [415, 415]);
      },
    );

    test('CORE-STREAM-001, JSONRPC-SSE-001, HTTP_JSON-SSE-001 a stream is of server-sent events', async () => {
      const response = await client().request('SendStreamingMessage', { message: messageOf('tck-stream-001') });
      expect([response.status, mediaTypeOf(response)]).toEqual([200, 'text/event-stream']);
      expect((await response.text()).match(/^data:/gm)?.length).toBeGreaterThan(1);
    });
  });

  describe('JSON-RPC', () => {
    test('JSONRPC-FMT-001, -002 answers each id with itself, in JSON', async () => {
      for (const id of [7, 'seven', randomUUID()]) {
        const params = { message: messageOf('tck-complete-task') };
        for (const method of ['SendMessage', 'NoSuchMethod']) {
          const response = await post('/a2a/jsonrpc', { jsonrpc: '2.0', id, method, params });
          expect(mediaTypeOf(response)).toBe('application/json');
          const { error, result, ...envelope } = (await response.json()) as Record<string, unknown>;
          expect(envelope).toEqual({ jsonrpc: '2.0', id });
          expect([error, result].filter((it) => it !== undefined)).toHaveLength(1);
        }
      }
    });

    test('JSONRPC-SVC-001 knows the operations by their names, and no others', async () => {
      for (const operation of OPERATIONS) expect((await rpc().call(operation)).error?.code).not.toBe(-32601);
      for (const operation of ['sendMessage', 'message/send', 'NoSuchMethod']) {
        expect((await rpc().call(operation)).error?.code).toBe(-32601);
      }
    });
  });

  describe('HTTP+JSON', () => {
    test('HTTP_JSON-URL-001, -002 has each operation at its path, for its method', async () => {
      for (const operation of OPERATIONS) {
        const { error, status } = await rest().call(operation, { id: randomUUID(), taskId: randomUUID() });
        // What is not there has no reason of A2A's.
        expect([operation, status < 300 || error?.reason !== undefined]).toEqual([operation, true]);
      }
      for (const [method, path] of [
        ['GET', '/message:send'],
        ['DELETE', '/tasks'],
        ['PUT', '/tasks/1'],
        ['POST', '/nothing'],
      ] as const) {
        const response = await fetch(`${served.url}/a2a/rest${path}`, { method, headers: { 'a2a-version': '1.0' } });
        expect([404, 405]).toContain(response.status);
      }
    });

    test('HTTP_JSON-SVC-001 answers in JSON, with a status that says how it went', async () => {
      const sent = await rest().send('tck-complete-task');
      expect([sent.status, mediaTypeOf(sent)]).toEqual([200, 'application/json']);
      const named = await rest().with({ accept: 'application/a2a+json' }).send('tck-complete-task');
      expect([named.status, mediaTypeOf(named)]).toEqual([200, 'application/a2a+json']);
    });

    test('HTTP_JSON-QP-001 takes the parameters of a query in camel case', async () => {
      const contextId = randomUUID();
      const { id } = await rest().task('tck-input-required', { contextId });
      await rest().task('tck-complete-task', { contextId });
      const query = new URLSearchParams({ contextId, pageSize: '1', status: 'TASK_STATE_INPUT_REQUIRED' });
      const headers = { 'a2a-version': '1.0' };
      const response = await fetch(`${served.url}/a2a/rest/tasks?${query.toString()}`, { headers });
      expect(await response.json()).toMatchObject({ pageSize: 1, totalSize: 1, tasks: [{ id, contextId }] });
    });
  });
}
