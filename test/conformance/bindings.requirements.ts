import { randomUUID } from 'node:crypto';
import { status } from '@grpc/grpc-js';
import { BINDINGS, clientOf, type Served } from './set-ups.fixture.js';
import { messageOf, type WireAnswer, type WireClient } from './wire.client.js';
import { kindOf } from './wire.stream.js';

/** What all bindings have to do alike, and the agent card. */
export function bindingRequirements(served: Served): void {
  const clients = (): WireClient[] => BINDINGS.map((binding) => clientOf(served, binding));

  /** Errors that an agent can be brought to, by the name that A2A gives them: reason, codes of JSON-RPC, HTTP and gRPC. */
  const errors: [string, number, number, number, (client: WireClient) => Promise<WireAnswer>][] = [
    [
      ...(['TASK_NOT_FOUND', -32001, 404, status.NOT_FOUND] as const),
      (client) => client.call('GetTask', { id: randomUUID() }),
    ],
    [
      ...(['TASK_NOT_CANCELABLE', -32002, 400, status.FAILED_PRECONDITION] as const),
      async (client) => client.call('CancelTask', { id: (await client.task('tck-complete-task')).id }),
    ],
    [
      ...(['UNSUPPORTED_OPERATION', -32004, 400, status.FAILED_PRECONDITION] as const),
      async (client) => client.call('SubscribeToTask', { id: (await client.task('tck-complete-task')).id }),
    ],
    [
      ...(['VERSION_NOT_SUPPORTED', -32009, 400, status.FAILED_PRECONDITION] as const),
      (client) => client.with({ 'a2a-version': '99.0' }).send('tck-complete-task'),
    ],
    [
      ...(['INVALID_PARAMS', -32602, 400, status.INVALID_ARGUMENT] as const),
      (client) => client.call('SendMessage', {}),
    ],
    [
      ...(['UNSUPPORTED_OPERATION', -32004, 400, status.FAILED_PRECONDITION] as const),
      (client) => client.call('GetExtendedAgentCard'),
    ],
  ];

  describe('All bindings', () => {
    test.each(errors)(
      'CORE-ERR-001, -002, CORE-CAP-003, VER-SERVER-002, BIND-EQUIV-003, JSONRPC-ERR-001 to -003, JSONRPC-SSE-002, HTTP_JSON-ERR-001, -002, HTTP_JSON-STATUS-001, GRPC-ERR-001, -002 say %s alike',
      async (reason, inRpc, inRest, inGrpc, provoke) => {
        const answers = await Promise.all(clients().map(provoke));
        expect(answers.map(({ error }) => error?.code)).toEqual([inRpc, inRest, inGrpc]);
        expect(answers.map((answer) => answer.status)).toEqual([200, inRest, inGrpc]);
        for (const { error } of answers) {
          expect(error?.message).toEqual(expect.stringMatching(/\S/));
          expect(error?.details).toContainEqual(
            expect.objectContaining({
              '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
              reason,
              domain: 'a2a-protocol.org',
            }),
          );
        }
      },
    );

    test('BIND-EQUIV-001, -002 show the same task alike, and take its next message from any', async () => {
      const [rpc, rest, grpc] = clients() as [WireClient, WireClient, WireClient];
      const { id: taskId } = await rpc.task('tck-input-required');
      await grpc.task('tck-input-required', { taskId });
      const ended = await rest.task('tck-artifact-data', { taskId });
      for (const client of clients()) expect((await client.call('GetTask', { id: taskId })).result).toEqual(ended);
      const kinds = await Promise.all(
        clients().map(async (client) => {
          const stream = await client.stream('SendStreamingMessage', {
            message: messageOf('tck-stream-artifact-chunked'),
          });
          return (await stream.rest()).map(kindOf);
        }),
      );
      expect(kinds).toEqual(kinds.map(() => kinds[0]));
    });

    test('JSONRPC-SVC-002, HTTP_JSON-SVC-002, GRPC-META-001, VER-SERVER-001, VER-CLIENT-002 take service parameters as headers or metadata', async () => {
      const headers = { 'a2a-extensions': 'https://example.com/one,https://example.com/other' };
      for (const client of clients()) {
        const known = await client.with(headers).task('tck-complete-task');
        const patched = await client.with({ 'a2a-version': '1.0.3' }).task('tck-complete-task');
        expect([known, patched].map(({ status: { state } }) => state)).toEqual(Array(2).fill('TASK_STATE_COMPLETED'));
      }
    });

    test.each(['', '0.3', 'one'])('VER-SERVER-003 take version %j for none of those of the card', async (version) => {
      for (const client of clients()) {
        const { error } = await client.with({ 'a2a-version': version }).send('tck-complete-task');
        expect(error?.reason).toBe('VERSION_NOT_SUPPORTED');
      }
    });
  });

  describe('The agent card', () => {
    const fetchCard = (headers: Record<string, string> = {}): Promise<Response> =>
      fetch(`${served.url}/.well-known/agent-card.json`, { headers });

    test('CARD-DISC-001, CARD-STRUCT-001 is at its well-known place, with all that it needs', async () => {
      const response = await fetchCard();
      expect([response.status, response.headers.get('content-type')?.split(';')[0]]).toEqual([200, 'application/json']);
      const text = expect.stringMatching(/\S/) as string;
      expect(await response.json()).toMatchObject({
        name: text,
        description: text,
        version: text,
        capabilities: { streaming: true, pushNotifications: true },
        defaultInputModes: [text],
        defaultOutputModes: [text, text],
        skills: [{ id: text, name: text, description: text, tags: [text] }],
      });
    });

    test('CARD-PROTO-001, -002, BIND-FIELD-001 names each binding, and where it is served', async () => {
      const url = expect.stringMatching(`^${served.url}/`) as string;
      expect(await (await fetchCard()).json()).toMatchObject({
        supportedInterfaces: [
          { protocolBinding: 'JSONRPC', protocolVersion: '1.0', url },
          { protocolBinding: 'HTTP+JSON', protocolVersion: '1.0', url },
          { protocolBinding: 'GRPC', protocolVersion: '1.0', url: served.grpcTarget },
        ],
      });
    });

    test('CARD-CACHE-001, -002, -003 may be cached, and is one card wherever it comes from', async () => {
      const cards = await Promise.all([1, 2, 3, 4].map(() => fetchCard()));
      const tags = cards.map(({ headers }) => headers.get('etag'));
      expect(new Set(tags).size).toBe(1);
      for (const { headers } of cards) {
        expect(headers.get('cache-control')).toMatch(/max-age=\d+/);
        expect(Date.parse(headers.get('last-modified')!)).toBeLessThanOrEqual(Date.now());
      }
      // A conditional fetch would ask for no cached answer of its own accord.
      const statusFor = async (known: Record<string, string>): Promise<number> =>
        (await fetchCard({ 'cache-control': 'max-age=0', ...known })).status;
      expect(await statusFor({ 'if-none-match': tags[0]! })).toBe(304);
      const modified = Date.parse(cards[0]!.headers.get('last-modified')!);
      const hour = 3_600_000;
      expect(await statusFor({ 'if-modified-since': new Date(modified + hour).toUTCString() })).toBe(304);
      expect(await statusFor({ 'if-modified-since': new Date(modified - hour).toUTCString() })).toBe(200);
    });
  });
}
