import { randomUUID } from 'node:crypto';
import { TRANSPORTS } from '../e2e/agent-app.fixture.js';
import type { Served } from './set-ups.fixture.js';
import { messageOf, type WireAnswer, WireClient } from './wire.client.js';
import { kindOf } from './wire.stream.js';

const OPERATIONS = [
  ...['SendMessage', 'SendStreamingMessage', 'GetTask', 'ListTasks', 'CancelTask', 'SubscribeToTask'],
  ...['CreateTaskPushNotificationConfig', 'GetTaskPushNotificationConfig', 'ListTaskPushNotificationConfigs'],
  ...['DeleteTaskPushNotificationConfig', 'GetExtendedAgentCard'],
];

/** What is of one binding alone, what both have to do alike, and the agent card. */
export function bindingRequirements(served: Served): void {
  const [rpc, rest] = TRANSPORTS.map((transport) => () => new WireClient(served.url, transport)) as [
    () => WireClient,
    () => WireClient,
  ];
  const mediaTypeOf = ({ headers }: { headers: Headers }) => headers.get('content-type')?.split(';')[0];

  /** Posts as it stands. */
  const post = (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(served.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });

  /** Errors that an agent can be brought to, by the name that A2A gives them: reason, JSON-RPC's code, HTTP's. */
  const errors: [string, number, number, (client: WireClient) => Promise<WireAnswer>][] = [
    ['TASK_NOT_FOUND', -32001, 404, (client) => client.call('GetTask', { id: randomUUID() })],
    [
      ...(['TASK_NOT_CANCELABLE', -32002, 400] as const),
      async (client) => client.call('CancelTask', { id: (await client.task('tck-complete-task')).id }),
    ],
    [
      ...(['UNSUPPORTED_OPERATION', -32004, 400] as const),
      async (client) => client.call('SubscribeToTask', { id: (await client.task('tck-complete-task')).id }),
    ],
    [
      ...(['CONTENT_TYPE_NOT_SUPPORTED', -32005, 415] as const),
      (client) => client.with({ 'content-type': 'text/plain' }).send('tck-complete-task'),
    ],
    [
      ...(['VERSION_NOT_SUPPORTED', -32009, 400] as const),
      (client) => client.with({ 'a2a-version': '99.0' }).send('tck-complete-task'),
    ],
    ['INVALID_PARAMS', -32602, 400, (client) => client.call('SendMessage', {})],
    ['UNSUPPORTED_OPERATION', -32004, 400, (client) => client.call('GetExtendedAgentCard')],
  ];

  describe('Both bindings', () => {
    test.each(errors)(
      'CORE-ERR-001, -002, CORE-CAP-003, VER-SERVER-002, BIND-EQUIV-003, JSONRPC-ERR-001 to -003, JSONRPC-SSE-002, HTTP_JSON-ERR-001, -002, HTTP_JSON-STATUS-001 say %s alike',
      async (reason, rpcCode, httpStatus, provoke) => {
        const [inRpc, inRest] = [await provoke(rpc()), await provoke(rest())];
        expect([inRpc.error?.code, inRest.error?.code]).toEqual([rpcCode, httpStatus]);
        expect([inRpc.status, inRest.status]).toEqual([200, httpStatus]);
        for (const { error, body } of [inRpc, inRest]) {
          expect(error?.message).toEqual(expect.stringMatching(/\S/));
          expect(error?.details).toContainEqual(
            expect.objectContaining({
              '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
              ...{ reason, domain: 'a2a-protocol.org' },
            }),
          );
          expect(Object.keys((body as { error: object }).error).sort()).toEqual(
            body === inRpc.body ? ['code', 'data', 'message'] : ['code', 'details', 'message', 'status'],
          );
        }
        expect([mediaTypeOf(inRpc), mediaTypeOf(inRest)]).toEqual(['application/json', 'application/json']);
      },
    );

    test('BIND-EQUIV-001, -002 show the same task alike, and take its next message from either', async () => {
      const { id: taskId } = await rpc().task('tck-input-required');
      const ended = await rest().task('tck-artifact-data', { taskId });
      for (const client of [rpc(), rest()]) {
        expect((await client.call('GetTask', { id: taskId })).result).toEqual(ended);
      }
      const kinds = await Promise.all(
        [rpc(), rest()].map(async (client) => {
          const stream = await client.stream('SendStreamingMessage', {
            message: messageOf('tck-stream-artifact-chunked'),
          });
          return (await stream.rest()).map(kindOf);
        }),
      );
      expect(kinds[0]).toEqual(kinds[1]);
    });

    test('JSONRPC-SVC-002, HTTP_JSON-SVC-002, VER-SERVER-001, VER-CLIENT-002 take service parameters as headers', async () => {
      const headers = { 'a2a-extensions': 'https://example.com/one,https://example.com/other' };
      for (const client of [rpc(), rest()]) {
        const known = await client.with(headers).task('tck-complete-task');
        const patched = await client.with({ 'a2a-version': '1.0.3' }).task('tck-complete-task');
        expect([known, patched].map(({ status }) => status.state)).toEqual(Array(2).fill('TASK_STATE_COMPLETED'));
      }
    });

    test('VER-SERVER-003 take no version for 0.3, which is not among those of the card', async () => {
      for (const client of [rpc(), rest()]) {
        const { error } = await client.with({ 'a2a-version': '' }).send('tck-complete-task');
        expect(error?.reason).toBe('VERSION_NOT_SUPPORTED');
      }
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

  describe('The agent card', () => {
    const fetchCard = (headers: Record<string, string> = {}): Promise<Response> =>
      fetch(`${served.url}/.well-known/agent-card.json`, { headers });

    test('CARD-DISC-001, CARD-STRUCT-001 is at its well-known place, with all that it needs', async () => {
      const response = await fetchCard();
      expect([response.status, mediaTypeOf(response)]).toEqual([200, 'application/json']);
      const text = expect.stringMatching(/\S/) as string;
      expect(await response.json()).toMatchObject({
        ...{ name: text, description: text, version: text },
        capabilities: { streaming: true, pushNotifications: true },
        ...{ defaultInputModes: [text], defaultOutputModes: [text, text] },
        skills: [{ id: text, name: text, description: text, tags: [text] }],
      });
    });

    test('CARD-PROTO-001, -002, BIND-FIELD-001 names each binding, and where it is served', async () => {
      const { supportedInterfaces } = (await (await fetchCard()).json()) as {
        supportedInterfaces: { url: string; protocolBinding: string; protocolVersion: string }[];
      };
      expect(supportedInterfaces.map(({ protocolBinding }) => protocolBinding)).toEqual([...TRANSPORTS]);
      for (const { url, protocolVersion } of supportedInterfaces) {
        expect([new URL(url).origin, protocolVersion]).toEqual([served.url, '1.0']);
      }
    });

    test('CARD-CACHE-001, -002, -003 may be cached, and is one card wherever it comes from', async () => {
      const cards = await Promise.all([1, 2, 3, 4].map(() => fetchCard()));
      const tags = cards.map(({ headers }) => headers.get('etag'));
      expect(new Set(tags).size).toBe(1);
      for (const { headers } of cards) {
        expect(headers.get('cache-control')).toMatch(/max-age=\d+/);
        expect(Date.parse(headers.get('last-modified')!)).toBeLessThanOrEqual(Date.now());
      }
      const known = await fetchCard({ 'if-none-match': tags[0]!, 'cache-control': 'max-age=0' });
      expect(known.status).toBe(304);
    });
  });
}
