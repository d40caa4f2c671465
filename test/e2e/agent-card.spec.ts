import type { AgentCard } from '@a2a-js/sdk';
import { errorName, errorOf, send } from '../../tools/harness/client.js';
import { type AgentApp, AgentAppFixture, type AgentBehaviour, TRANSPORTS } from './agent-app.fixture.js';
import { completed, inputRequired, textOf } from './agent-events.js';
import { callBody, cardOf, messageBody, post, type Transport, urlsOf } from './raw-requests.js';

const fixture = new AgentAppFixture();

const agent: AgentBehaviour = {
  execute: (context, bus) =>
    textOf(context.userMessage) === 'end' ? completed(bus, context) : inputRequired(bus, context),
};

async function extendedCard(app: AgentApp, transport: Transport, user?: string): Promise<AgentCard> {
  const client = await app.client({ transport, ...(user && { user }) });
  return client.transport.getExtendedAgentCard({ tenant: '' }, { serviceParameters: { 'A2A-Version': '1.0' } });
}

describe('The agent card', () => {
  test('is outside of guards, the global ones too', async () => {
    const app = await fixture.start({
      ...agent,
      cluster: { guards: [{ canActivate: () => false }] },
      configure: (nest) => nest.useGlobalGuards({ canActivate: () => false }),
    });
    expect((await cardOf(app)).name).toBe('test agent');
    expect((await post(app, 'JSONRPC', '{}')).status).toBe(403);
  });

  test('keeps interfaces of its own, and says what it was given', async () => {
    const supportedInterfaces = [
      { url: 'https://elsewhere.example.com/rpc', protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' },
    ];
    const app = await fixture.start({
      ...agent,
      cluster: {
        agentCard: {
          ...{ name: 'n', description: 'd', version: '2', supportedInterfaces, defaultInputModes: ['text/plain'] },
        },
        publicUrl: undefined as never,
      },
    });
    const card = await cardOf(app);
    expect(card).toMatchObject({ name: 'n', version: '2', defaultInputModes: ['text/plain'] });
    expect(urlsOf(card)).toEqual(['https://elsewhere.example.com/rpc']);
  });

  test('may be cached, and is not sent again to those who have it', async () => {
    const app = await fixture.start(agent);
    const url = `${app.url}/.well-known/agent-card.json`;
    const { headers } = await fetch(url);
    expect(headers.get('cache-control')).toMatch(/max-age=\d+/);
    const [etag, modified] = [headers.get('etag')!, headers.get('last-modified')!];
    expect(Date.parse(modified)).toBeLessThanOrEqual(Date.now());
    // A conditional fetch would ask for no cached answer of its own accord.
    const statusFor = async (known: Record<string, string>): Promise<number> =>
      (await fetch(url, { headers: { 'cache-control': 'max-age=0', ...known } })).status;
    expect(await statusFor({ 'if-none-match': etag })).toBe(304);
    expect(await statusFor({ 'if-modified-since': modified })).toBe(304);
    const earlier = new Date(Date.parse(modified) - 60_000).toUTCString();
    expect(await statusFor({ 'if-modified-since': earlier })).toBe(200);
  });

  test('is signed where a signature is asked for', async () => {
    const app = await fixture.start({
      ...agent,
      cluster: {
        cardSignature: (card) =>
          Promise.resolve({ ...card, signatures: [{ protected: 'p', signature: 's', header: undefined }] }),
      },
    });
    expect((await cardOf(app)).signatures).toMatchObject([{ protected: 'p', signature: 's' }]);
  });

  test.each(TRANSPORTS)('has an extended one for those who may see it, over %s', async (transport) => {
    const plain = await fixture.start(agent);
    expect(await errorName(extendedCard(plain, transport))).toBe('UnsupportedOperationError');
    const capabilities = { extendedAgentCard: true, streaming: true, extensions: [] };
    const agentCard = { name: 'n', description: 'd', version: '1', capabilities };
    const missing = await fixture.start({ ...agent, cluster: { agentCard } });
    expect(await errorName(extendedCard(missing, transport))).toBe('ExtendedAgentCardNotConfiguredError');
    const app = await fixture.start({
      ...agent,
      cluster: {
        agentCard,
        extendedAgentCard: async ({ user }) => ({
          ...(await plain.client().then((client) => client.getAgentCard())),
          name: `for ${user?.userName}`,
        }),
      },
    });
    const card = await extendedCard(app, transport, 'alice');
    expect(card.name).toBe('for alice');
  });

  test.each(TRANSPORTS)('that offers no push, and the push methods say so, over %s', async (transport) => {
    const capabilities = { pushNotifications: false, streaming: true, extensions: [] };
    const app = await fixture.start({
      ...agent,
      cluster: { agentCard: { name: 'n', description: 'd', version: '1', capabilities } },
    });
    expect((await cardOf(app)).capabilities?.pushNotifications ?? false).toBe(false);
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'hello');
    if (transport === 'JSONRPC') {
      for (const method of ['Create', 'Get', 'Delete'].map((verb) => `${verb}TaskPushNotificationConfig`)) {
        const answer = await post(
          app,
          transport,
          callBody(transport, method, { taskId, id: 'c', url: 'https://x.test' }),
        );
        expect(answer.code).toBe(-32003);
      }
      const listed = await post(app, transport, callBody(transport, 'ListTaskPushNotificationConfigs', { taskId }));
      expect(listed.code).toBe(-32003);
      return;
    }
    const path = `/a2a/rest/tasks/${taskId}/pushNotificationConfigs`;
    const headers = { 'a2a-version': '1.0' };
    const answers = [
      await post(app, transport, '{"url":"https://x.test"}', { path }),
      ...(await Promise.all(
        [
          [path, 'GET'],
          [`${path}/c`, 'GET'],
          [`${path}/c`, 'DELETE'],
        ].map(async ([at, method]) => {
          const response = await fetch(app.url + at, { method: method!, headers });
          return { status: response.status, text: await response.text() };
        }),
      )),
    ];
    for (const { status, text } of answers) {
      expect([status, text]).toEqual([400, expect.stringContaining('PUSH_NOTIFICATION_NOT_SUPPORTED')]);
    }
  });

  test.each(TRANSPORTS)(
    'that does not stream makes streaming calls UnsupportedOperationError, over %s',
    async (transport) => {
      const capabilities = { streaming: false, extensions: [] };
      const app = await fixture.start({
        ...agent,
        cluster: { agentCard: { name: 'n', description: 'd', version: '1', capabilities } },
      });
      const client = await app.client({ transport });
      const { id } = await send(client, 'hello');
      const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] };
      for (const [method, params, restPath] of [
        ['SubscribeToTask', { id }, `/tasks/${id}:subscribe`],
        ['SendStreamingMessage', { message }, '/message:stream'],
      ] as const) {
        const path = transport === 'JSONRPC' ? '/a2a/jsonrpc' : `/a2a/rest${restPath}`;
        const answer = await post(app, transport, callBody(transport, method, params), { path });
        expect([method, answer.reason]).toEqual([method, 'UNSUPPORTED_OPERATION']);
      }
    },
  );

  test.each(TRANSPORTS)('that requires an extension is only for clients that know it, over %s', async (transport) => {
    const extensions = [{ uri: 'https://example.com/ext', required: true, description: '', params: undefined }];
    const app = await fixture.start({
      ...agent,
      cluster: {
        agentCard: { name: 'n', description: 'd', version: '1', capabilities: { extensions, streaming: true } },
      },
    });
    const client = await app.client({ transport });
    const error = await errorOf(send(client, 'hello'));
    expect([error.name, error.message]).toEqual([
      'ExtensionSupportRequiredError',
      expect.stringContaining('https://example.com/ext'),
    ]);
    const headers = { 'a2a-extensions': 'https://example.com/ext, https://example.com/unknown' };
    const answer = await post(app, transport, messageBody(transport, { messageId: `ext ${transport}` }), { headers });
    expect(answer.text).toContain('INPUT_REQUIRED');
  });
});

test('validateInputModes refuses parts in media types that the card does not name', async () => {
  const app = await fixture.start({
    ...agent,
    cluster: {
      agentCard: { name: 'n', description: 'd', version: '1', defaultInputModes: ['application/json'] },
      validateInputModes: true,
    },
  });
  expect(await errorName(send(await app.client(), 'hello'))).toBe('ContentTypeNotSupportedError');
});
