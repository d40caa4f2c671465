import { AgentCard, type AgentInterface } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { AgentCards } from './agent-cards.js';
import { optionsWith } from '../../../../test/helpers/options.js';
import type { A2AClusterOptions } from '../options/cluster.options.js';
import type { AgentEndpoints } from './agent-endpoints.js';
import type { AgentCardInput } from '../options/card.options.js';
import type { TransportPaths } from '../options/transport.options.js';

const input: AgentCardInput = { name: 'agent', description: 'd', version: '1' };
const transports: TransportPaths = { jsonRpc: '/rpc', rest: '/http', agentCard: '/card', bodyLimitBytes: 1 };
const at = (
  publicUrl: string | undefined,
  prefix = '',
  paths = transports,
  grpc?: string,
  legacyBindings: string[] = [],
): AgentEndpoints => ({
  publicUrl,
  prefixOf: () => prefix,
  transports: paths,
  grpc,
  legacyBindings,
});

const cardsOf = (
  agentCard: AgentCardInput,
  endpoints: AgentEndpoints,
  more: Pick<Partial<A2AClusterOptions>, 'extendedAgentCard' | 'cardSignature'> = {},
): AgentCards => new AgentCards(optionsWith({ agentCard, ...more }), endpoints);

const urlsOf = async (cards: AgentCards): Promise<string[]> =>
  (await cards.card()).supportedInterfaces.map(({ url, protocolBinding }) => `${protocolBinding} ${url}`);

describe('AgentCards', () => {
  test.each([
    ['https://x.test', '', ['JSONRPC https://x.test/rpc', 'HTTP+JSON https://x.test/http']],
    ['https://x.test/', '/api', ['JSONRPC https://x.test/api/rpc', 'HTTP+JSON https://x.test/api/http']],
    ['https://x.test/a//', '', ['JSONRPC https://x.test/a/rpc', 'HTTP+JSON https://x.test/a/http']],
  ])('with publicUrl %p and prefix %p names %p', async (publicUrl, prefix, expected) => {
    expect(await urlsOf(cardsOf(input, at(publicUrl, prefix)))).toEqual(expected);
  });

  test('name only the transports that are on', async () => {
    const endpoints = at('https://x.test', '', { ...transports, jsonRpc: false });
    expect(await urlsOf(cardsOf(input, endpoints))).toEqual(['HTTP+JSON https://x.test/http']);
  });

  test('name gRPC where it is at the moment', async () => {
    let port = 1;
    const cards = cardsOf(input, {
      ...at('https://x.test'),
      prefixOf: () => '',
      get grpc() {
        return `x:${port}`;
      },
    });
    const [jsonRpc, rest, grpc] = await urlsOf(cards);
    expect([jsonRpc, rest, grpc]).toEqual(['JSONRPC https://x.test/rpc', 'HTTP+JSON https://x.test/http', 'GRPC x:1']);
    port = 2;
    expect(await urlsOf(cards)).toContain('GRPC x:2');
  });

  test('name each interface of version 0.3 once more, and one that was given only once', async () => {
    const versionsOf = async (cards: AgentCards, card = cards.card()): Promise<string[]> =>
      (await card).supportedInterfaces.map((it) => `${it.protocolVersion} ${it.protocolBinding} ${it.url}`);
    const endpoints = at('https://x.test', '', transports, 'x:1', ['HTTP+JSON', 'GRPC']);
    const own = [
      '1.0 JSONRPC https://x.test/rpc',
      '1.0 HTTP+JSON https://x.test/http',
      '1.0 GRPC x:1',
      '0.3 HTTP+JSON https://x.test/http',
      '0.3 GRPC x:1',
    ];
    expect(await versionsOf(cardsOf(input, endpoints))).toEqual(own);
    const interfaceOf = (protocolVersion: string, url: string): AgentInterface => ({
      url,
      protocolBinding: 'GRPC',
      tenant: '',
      protocolVersion,
    });
    const given = [interfaceOf('1.0', 'new:1'), interfaceOf('0.3', 'old:1')];
    const withOwn = cardsOf({ ...input, supportedInterfaces: given }, endpoints);
    expect(await versionsOf(withOwn)).toEqual(['1.0 GRPC new:1', '0.3 GRPC old:1']);
    const extended = (): Promise<AgentCard> => Promise.resolve({ name: 'more' } as AgentCard);
    const more = cardsOf(input, endpoints, { extendedAgentCard: extended });
    expect(await versionsOf(more, more.extendedCard(new ServerCallContext()) as Promise<AgentCard>)).toEqual(own);
  });

  test('keep interfaces that were given, and read the endpoints only when they need them', async () => {
    const given = { url: 'https://elsewhere', protocolBinding: 'JSONRPC', tenant: '', protocolVersion: '1.0' };
    const never = {
      get publicUrl(): string {
        throw new Error('not ready');
      },
    } as AgentEndpoints;
    const cards = cardsOf({ ...input, supportedInterfaces: [given] }, at('https://x.test'));
    expect(await urlsOf(cards)).toEqual(['JSONRPC https://elsewhere']);
    expect(() => cardsOf(input, never)).not.toThrow();
  });

  test('promise streaming unless told otherwise, and push only where told', async () => {
    const capabilities = { ...AgentCard.fromJSON({ capabilities: {} }).capabilities!, pushNotifications: true };
    const plain = await cardsOf(input, at('https://x.test')).card();
    expect(plain.capabilities).toMatchObject({ streaming: true, pushNotifications: false, extensions: [] });
    const given = { ...input, capabilities: { ...capabilities, streaming: false } };
    const card = await cardsOf(given, at('https://x.test')).card();
    expect(card.capabilities).toMatchObject({ streaming: false, pushNotifications: true });
  });

  test('are signed, the extended one too', async () => {
    const sign = (card: AgentCard): Promise<AgentCard> => Promise.resolve({ ...card, name: `${card.name}, signed` });
    const extended = (): Promise<AgentCard> => Promise.resolve(AgentCard.fromJSON({ name: 'more' }));
    const cards = cardsOf(input, at('https://x.test'), { extendedAgentCard: extended, cardSignature: sign });
    expect((await cards.card()).name).toBe('agent, signed');
    expect((await cards.extendedCard(new ServerCallContext()))?.name).toBe('more, signed');
  });

  test('are signed once each, also by a generator that writes into what it is given', async () => {
    const sign = (card: AgentCard): Promise<AgentCard> => {
      card.signatures.push({ protected: 'p', signature: 's', header: undefined });
      card.capabilities!.streaming = false;
      return Promise.resolve(card);
    };
    const cards = cardsOf(input, at('https://x.test'), { cardSignature: sign });
    await cards.card();
    expect((await cards.card()).signatures).toHaveLength(1);
    expect(cards.offered.capabilities?.streaming).toBe(true);
  });

  test('show a fixed extended card to authenticated callers only, and ask a function about each', async () => {
    const more = AgentCard.fromJSON({ name: 'more' });
    const cards = cardsOf(input, at('https://x.test'), { extendedAgentCard: more });
    const alice = new ServerCallContext({ user: { isAuthenticated: true, userName: 'alice' } });
    expect((await cards.extendedCard(new ServerCallContext()))?.name).toBe('agent');
    expect((await cards.extendedCard(alice))?.name).toBe('more');
    const asked = cardsOf(input, at('https://x.test'), {
      extendedAgentCard: ({ user }) => Promise.resolve({ ...more, name: `for ${user?.userName}` }),
    });
    expect((await asked.extendedCard(alice))?.name).toBe('for alice');
    expect(await cardsOf(input, at('u')).extendedCard(alice)).toBeUndefined();
  });
});
