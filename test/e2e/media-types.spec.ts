import { A2A_CONTENT_TYPE } from '@a2a-js/sdk';
import { AgentAppFixture } from './agent-app.fixture.js';
import { completed } from './agent-events.js';
import { messageBody, post } from './raw-requests.js';

const fixture = new AgentAppFixture();

const JSON_TYPE = 'application/json';

const answers: [string, { accept?: string; contentType: string }, string][] = [
  ['a client that names none', { contentType: JSON_TYPE }, JSON_TYPE],
  ['a client that takes anything', { accept: '*/*', contentType: JSON_TYPE }, JSON_TYPE],
  ['a client that takes plain JSON', { accept: JSON_TYPE, contentType: A2A_CONTENT_TYPE }, JSON_TYPE],
  ["a client that sends A2A's own", { contentType: A2A_CONTENT_TYPE }, A2A_CONTENT_TYPE],
  ["a client that takes A2A's own", { accept: A2A_CONTENT_TYPE, contentType: JSON_TYPE }, A2A_CONTENT_TYPE],
  ['the SDK', { accept: `${A2A_CONTENT_TYPE}, ${JSON_TYPE}`, contentType: JSON_TYPE }, A2A_CONTENT_TYPE],
  [
    'a client that prefers plain JSON',
    { accept: `${A2A_CONTENT_TYPE};q=0.5, ${JSON_TYPE}`, contentType: JSON_TYPE },
    JSON_TYPE,
  ],
  ['a client that takes neither', { accept: 'text/html', contentType: JSON_TYPE }, JSON_TYPE],
];

test.each(answers)(
  'HTTP+JSON answers %s in the media type that it knows',
  async (_who, { accept, contentType }, type) => {
    const app = await fixture.start({ execute: (context, bus) => completed(bus, context) });
    const headers = accept === undefined ? {} : { accept };
    for (const [body, status] of [
      [messageBody('HTTP+JSON', { messageId: `to ${_who}` }), 200],
      [messageBody('HTTP+JSON', { messageId: '' }), 400],
      ['{', 400],
    ] as const) {
      const answer = await post(app, 'HTTP+JSON', body, { contentType, headers });
      expect([answer.status, answer.headers.get('content-type')?.split(';')[0]]).toEqual([status, type]);
      expect(answer.headers.get('vary')).toContain('Accept');
    }
  },
);

test('JSON-RPC and event streams keep the one type that they have', async () => {
  const app = await fixture.start({ execute: (context, bus) => completed(bus, context) });
  const headers = { accept: A2A_CONTENT_TYPE };
  const typeOf = async (...args: Parameters<typeof post>): Promise<string | undefined> =>
    (await post(...args)).headers.get('content-type')?.split(';')[0];
  expect(await typeOf(app, 'JSONRPC', messageBody('JSONRPC', { messageId: 'rpc' }), { headers })).toBe(JSON_TYPE);
  const stream = { headers, path: '/a2a/rest/message:stream' };
  expect(await typeOf(app, 'HTTP+JSON', messageBody('HTTP+JSON', { messageId: 'sse' }), stream)).toBe(
    'text/event-stream',
  );
});
