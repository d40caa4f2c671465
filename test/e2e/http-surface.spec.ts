import { type INestApplication, RequestMethod, VersioningType } from '@nestjs/common';
import { cancel, clientFor, errorName, getTask, send, subscribe } from '../../tools/harness/client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { type AgentApp, AgentAppFixture, TRANSPORTS } from './agent-app.fixture.js';
import { callBody, cardOf, messageBody, post, urlsOf } from './raw-requests.js';
import { askingAgent } from './agents.js';

const fixture = new AgentAppFixture();

/** Every operation works, under the URLs that the card says. */
async function expectServing(app: AgentApp): Promise<void> {
  for (const transport of TRANSPORTS) {
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'hello');
    const subscriber = Recording.subscribe(client, taskId);
    await subscriber.task();
    expect(stateName(await send(client, 'end', { taskId }))).toBe('COMPLETED');
    await subscriber.finished();
    expect(stateName(await getTask(client, taskId))).toBe('COMPLETED');
    const other = await send(client, 'hello');
    expect(stateName(await cancel(client, other.id))).toBe('CANCELED');
  }
}

describe('Where the agent is served', () => {
  test('by default under /a2a, with the card at its well-known place', async () => {
    const app = await fixture.start(askingAgent);
    const card = await cardOf(app);
    expect(card.supportedInterfaces).toMatchObject([
      { url: `${app.url}/a2a/jsonrpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: `${app.url}/a2a/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
    ]);
    expect(card.capabilities).toMatchObject({ streaming: true });
    await expectServing(app);
  });

  const setUps: [string, (nest: INestApplication) => void, string][] = [
    ['a global prefix', (nest) => nest.setGlobalPrefix('api'), '/api'],
    ['a global prefix of several segments and odd slashes', (nest) => nest.setGlobalPrefix('/api/v2/'), '/api/v2'],
    ['URI versioning', (nest) => nest.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' }), ''],
    [
      'header versioning',
      (nest) => nest.enableVersioning({ type: VersioningType.HEADER, header: 'X-Version', defaultVersion: '1' }),
      '',
    ],
    [
      'both',
      (nest) => {
        nest.setGlobalPrefix('api');
        nest.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
      },
      '/api',
    ],
  ];

  test.each(setUps)('with %s the card stays at the root and names the right URLs', async (_what, configure, prefix) => {
    const app = await fixture.start({ ...askingAgent, configure });
    expect(urlsOf(await cardOf(app))).toEqual([`${app.url}${prefix}/a2a/jsonrpc`, `${app.url}${prefix}/a2a/rest`]);
    await expectServing(app);
    // The body parser finds the paths below the prefix too.
    for (const [transport, path] of [
      ['JSONRPC', `${prefix}/a2a/jsonrpc`],
      ['HTTP+JSON', `${prefix}/a2a/rest/message:send`],
    ] as const) {
      expect((await post(app, transport, '{', { path })).status).toBe(transport === 'JSONRPC' ? 200 : 400);
      const big = messageBody(transport, { messageId: `big ${prefix}`, parts: [{ text: 'x'.repeat(200_000) }] });
      expect((await post(app, transport, big, { path })).status).toBe(200);
    }
  });

  test('paths that a global prefix excludes are served and named without it', async () => {
    const exclude = [
      { path: 'a2a/jsonrpc', method: RequestMethod.ALL },
      { path: 'a2a/rest/*operation', method: RequestMethod.ALL },
    ];
    const app = await fixture.start({ ...askingAgent, configure: (nest) => nest.setGlobalPrefix('api', { exclude }) });
    const answer = await post(app, 'JSONRPC', messageBody('JSONRPC', { messageId: 'excluded' }));
    expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('INPUT_REQUIRED')]);
    expect(urlsOf(await cardOf(app))).toEqual([`${app.url}/a2a/jsonrpc`, `${app.url}/a2a/rest`]);
  });

  test('at paths of its own, and a public URL with a path and a slash at its end', async () => {
    const transports = { jsonRpc: 'rpc/', rest: '/v1', agentCard: 'card.json' };
    const app = await fixture.start({ ...askingAgent, cluster: { transports } });
    expect(urlsOf(await cardOf(app, '/card.json'))).toEqual([`${app.url}/rpc`, `${app.url}/v1`]);
    const proxied = await fixture.start({
      ...askingAgent,
      cluster: { transports, publicUrl: 'https://example.com/agents/' },
    });
    expect(urlsOf(await cardOf(proxied, '/card.json'))).toEqual([
      'https://example.com/agents/rpc',
      'https://example.com/agents/v1',
    ]);
    expect((await fetch(`${app.url}/.well-known/agent-card.json`)).status).toBe(404);
    expect((await post(app, 'JSONRPC', '{}')).status).toBe(404);
    expect((await post(app, 'JSONRPC', callBody('JSONRPC', 'ListTasks', {}), { path: '/rpc' })).status).toBe(200);
  });

  test('with one path inside the other, errors keep the form of their transport', async () => {
    const app = await fixture.start({ ...askingAgent, cluster: { transports: { jsonRpc: '/a2a/rpc', rest: '/a2a' } } });
    await expectServing(app);
    expect((await post(app, 'JSONRPC', '{', { path: '/a2a/rpc' })).code).toBe(-32700);
    expect((await post(app, 'HTTP+JSON', '{', { path: '/a2a/message:send' })).reason).toBe('INVALID_PARAMS');
  });

  test('each transport may be off', async () => {
    const app = await fixture.start({ ...askingAgent, cluster: { transports: { rest: false } } });
    expect(urlsOf(await cardOf(app))).toEqual([`${app.url}/a2a/jsonrpc`]);
    expect((await post(app, 'HTTP+JSON', messageBody('HTTP+JSON'))).status).toBe(404);
    expect(stateName(await send(await app.client(), 'end'))).toBe('COMPLETED');
    const cardless = await fixture.start({
      ...askingAgent,
      cluster: { transports: { jsonRpc: false, agentCard: false } },
    });
    expect((await fetch(`${cardless.url}/.well-known/agent-card.json`)).status).toBe(404);
    expect((await post(cardless, 'JSONRPC', '{}')).status).toBe(404);
    const answer = await post(cardless, 'HTTP+JSON', messageBody('HTTP+JSON', { messageId: 'off' }));
    expect(answer.status).toBe(200);
  });

  test('without a tenant in the path or with one, whose tasks are apart', async () => {
    const app = await fixture.start(askingAgent);
    const body = messageBody('HTTP+JSON', { messageId: 'tenant' });
    const mine = await post(app, 'HTTP+JSON', body, { path: '/a2a/rest/acme/message:send' });
    const { task } = JSON.parse(mine.text) as { task: { id: string } };
    const [row] = await fixture.database.query('SELECT tenant FROM a2a_tasks WHERE task_id = $1', [task.id]);
    expect(row).toEqual({ tenant: 'acme' });
    const client = await app.client();
    expect(await errorName(getTask(client, task.id))).toBe('TaskNotFoundError');
    expect(await errorName(subscribe(client, task.id))).toBe('TaskNotFoundError');
    expect(stateName(await client.getTask({ tenant: 'acme', id: task.id, historyLength: undefined }))).toBe(
      'INPUT_REQUIRED',
    );
  });
});

test('app.enableCors() covers the card, the endpoints, and errors', async () => {
  const origin = 'https://app.example.com';
  const app = await fixture.start({
    ...askingAgent,
    configure: (nest) => nest.enableCors({ origin, exposedHeaders: ['A2A-Extensions'] }),
  });
  const allowed = (response: { headers: Headers }): string | null =>
    response.headers.get('access-control-allow-origin');
  expect(allowed(await fetch(`${app.url}/.well-known/agent-card.json`, { headers: { origin } }))).toBe(origin);
  for (const transport of TRANSPORTS) {
    const path = transport === 'JSONRPC' ? '/a2a/jsonrpc' : '/a2a/rest/message:send';
    const preflight = await fetch(app.url + path, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'a2a-version' },
    });
    expect([preflight.status, allowed(preflight)]).toEqual([204, origin]);
    const headers = { origin };
    expect(allowed(await post(app, transport, messageBody(transport, { messageId: 'cors' }), { headers }))).toBe(
      origin,
    );
    expect(allowed(await post(app, transport, messageBody(transport, { messageId: '' }), { headers }))).toBe(origin);
    expect(allowed(await post(app, transport, '{', { headers }))).toBe(origin);
  }
});

test('the base URL may end in a slash, and the client finds the card', async () => {
  const app = await fixture.start(askingAgent);
  expect(stateName(await send(await clientFor(`${app.url}/`), 'end'))).toBe('COMPLETED');
});
