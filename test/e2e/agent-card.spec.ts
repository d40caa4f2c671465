import { AgentCard } from '@a2a-js/sdk';
import { errorName, errorOf, send } from '../../tools/harness/client.js';
import { ALL_TRANSPORTS, type AgentApp, AgentAppFixture, cardWith, TRANSPORTS } from './agent-app.fixture.js';
import { callBody, cardOf, messageBody, post } from './raw-requests.js';
import { askingAgent } from './agents.js';
import { withGrpc } from './grpc.fixture.js';
import { HttpClient } from '../conformance/http.client.js';

const fixture = new AgentAppFixture();

async function extendedCard(
  app: AgentApp,
  transport: (typeof ALL_TRANSPORTS)[number],
  user?: string,
): Promise<AgentCard> {
  const client = await app.client({ transport, ...(user && { user }) });
  return client.transport.getExtendedAgentCard({ tenant: '' }, { serviceParameters: { 'A2A-Version': '1.0' } });
}

describe('The agent card', () => {
  test('is outside of guards, the global ones too', async () => {
    const app = await fixture.start({
      ...askingAgent,
      cluster: { guards: [{ canActivate: () => false }] },
      configure: (nest) => nest.useGlobalGuards({ canActivate: () => false }),
    });
    expect((await cardOf(app)).name).toBe('test agent');
    expect((await post(app, 'JSONRPC', '{}')).status).toBe(403);
  });

  test('is signed where a signature is asked for', async () => {
    const app = await fixture.start({
      ...askingAgent,
      cluster: {
        cardSignature: (card) =>
          Promise.resolve({ ...card, signatures: [{ protected: 'p', signature: 's', header: undefined }] }),
      },
    });
    expect((await cardOf(app)).signatures).toMatchObject([{ protected: 'p', signature: 's' }]);
  });

  test.each(ALL_TRANSPORTS)('has an extended one for those who may see it, over %s', async (transport) => {
    const plain = await fixture.start(withGrpc(askingAgent));
    expect(await errorName(extendedCard(plain, transport))).toBe('UnsupportedOperationError');
    const agentCard = cardWith({ extendedAgentCard: true });
    const missing = await fixture.start(withGrpc({ ...askingAgent, cluster: { agentCard } }));
    expect(await errorName(extendedCard(missing, transport))).toBe('ExtendedAgentCardNotConfiguredError');
    const app = await fixture.start(
      withGrpc({
        ...askingAgent,
        cluster: {
          agentCard,
          extendedAgentCard: ({ user }) =>
            Promise.resolve(AgentCard.fromJSON({ ...agentCard, name: `for ${user?.userName}` })),
        },
      }),
    );
    const card = await extendedCard(app, transport, 'alice');
    expect(card.name).toBe('for alice');
  });

  test.each(TRANSPORTS)('that offers no push, and the push methods say so, over %s', async (transport) => {
    const app = await fixture.start({
      ...askingAgent,
      cluster: { agentCard: cardWith({ pushNotifications: false }) },
    });
    expect((await cardOf(app)).capabilities?.pushNotifications ?? false).toBe(false);
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'hello');
    const asked = { taskId, id: 'c', url: 'https://x.test' };
    const wire = new HttpClient(app.url, transport);
    for (const verb of ['Create', 'Get', 'Delete', 'List']) {
      const method = `${verb}TaskPushNotificationConfig${verb === 'List' ? 's' : ''}`;
      const { error } = await wire.call(method, asked);
      expect([method, error?.reason]).toEqual([method, 'PUSH_NOTIFICATION_NOT_SUPPORTED']);
      expect(error?.code).toBe(transport === 'JSONRPC' ? -32003 : 400);
    }
  });

  test.each(TRANSPORTS)(
    'that does not stream makes streaming calls UnsupportedOperationError, over %s',
    async (transport) => {
      const app = await fixture.start({ ...askingAgent, cluster: { agentCard: cardWith({ streaming: false }) } });
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
    const app = await fixture.start({ ...askingAgent, cluster: { agentCard: cardWith({ extensions }) } });
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
    ...askingAgent,
    cluster: {
      agentCard: { name: 'n', description: 'd', version: '1', defaultInputModes: ['application/json'] },
      validateInputModes: true,
    },
  });
  expect(await errorName(send(await app.client(), 'hello'))).toBe('ContentTypeNotSupportedError');
});
