import { AgentCard, type AgentInterface } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { AgentCards } from './agent-cards.js';
import type { AgentCardInput } from '../options/card.options.js';
import type { TransportPaths } from '../options/transport.options.js';

const input: AgentCardInput = { name: 'agent', description: 'd', version: '1' };
const transports: TransportPaths = { jsonRpc: '/rpc', rest: '/http', agentCard: '/card', bodyLimitBytes: 1 };
const at =
  (publicUrl: string | undefined, prefix = '', paths = transports, grpc?: string, legacyBindings: string[] = []) =>
  () => ({
    ...{ publicUrl, prefixOf: () => prefix, transports: paths, grpc, legacyBindings },
  });

const urlsOf = async (cards: AgentCards): Promise<string[]> =>
  (await cards.card()).supportedInterfaces.map(({ url, protocolBinding }) => `${protocolBinding} ${url}`);

describe('AgentCards', () => {
  test.each([
    ['https://x.test', '', ['JSONRPC https://x.test/rpc', 'HTTP+JSON https://x.test/http']],
    ['https://x.test/', '/api', ['JSONRPC https://x.test/api/rpc', 'HTTP+JSON https://x.test/api/http']],
    ['https://x.test/a//', '', ['JSONRPC https://x.test/a/rpc', 'HTTP+JSON https://x.test/a/http']],
  ])('with publicUrl %p and prefix %p names %p', async (publicUrl, prefix, expected) => {
    expect(await urlsOf(new AgentCards(input, undefined, undefined, at(publicUrl, prefix)))).toEqual(expected);
  });

  test('name only the transports that are on', async () => {
    const endpoints = at('https://x.test', '', { ...transports, jsonRpc: false });
    expect(await urlsOf(new AgentCards(input, undefined, undefined, endpoints))).toEqual([
      'HTTP+JSON https://x.test/http',
    ]);
  });

  test('name gRPC where it is at the moment', async () => {
    let port = 1;
    const cards = new AgentCards(input, undefined, undefined, () =>
      at('https://x.test', '', transports, `x:${port}`)(),
    );
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
      ...['1.0 HTTP+JSON https://x.test/http', '1.0 GRPC x:1', '0.3 HTTP+JSON https://x.test/http', '0.3 GRPC x:1'],
    ];
    expect(await versionsOf(new AgentCards(input, undefined, undefined, endpoints))).toEqual(own);
    const interfaceOf = (protocolVersion: string, url: string): AgentInterface => ({
      ...{ url, protocolBinding: 'GRPC', tenant: '', protocolVersion },
    });
    const given = [interfaceOf('1.0', 'new:1'), interfaceOf('0.3', 'old:1')];
    const withOwn = new AgentCards({ ...input, supportedInterfaces: given }, undefined, undefined, endpoints);
    expect(await versionsOf(withOwn)).toEqual(['1.0 GRPC new:1', '0.3 GRPC old:1']);
    const extended = (): Promise<AgentCard> => Promise.resolve({ name: 'more' } as AgentCard);
    const more = new AgentCards(input, extended, undefined, endpoints);
    expect(await versionsOf(more, more.extendedCard(new ServerCallContext()) as Promise<AgentCard>)).toEqual(own);
  });

  test('keep interfaces that were given, and read the endpoints only when they need them', async () => {
    const given = { url: 'https://elsewhere', protocolBinding: 'JSONRPC', tenant: '', protocolVersion: '1.0' };
    const never = (): never => {
      throw new Error('not ready');
    };
    const cards = new AgentCards(
      { ...input, supportedInterfaces: [given] },
      undefined,
      undefined,
      at('https://x.test'),
    );
    expect(await urlsOf(cards)).toEqual(['JSONRPC https://elsewhere']);
    expect(() => new AgentCards(input, undefined, undefined, never)).not.toThrow();
  });

  test('promise streaming unless told otherwise, and push only where told', async () => {
    const capabilities = { ...AgentCard.fromJSON({ capabilities: {} }).capabilities!, pushNotifications: true };
    const plain = await new AgentCards(input, undefined, undefined, at('https://x.test')).card();
    expect(plain.capabilities).toMatchObject({ streaming: true, pushNotifications: false, extensions: [] });
    const given = { ...input, capabilities: { ...capabilities, streaming: false } };
    const card = await new AgentCards(given, undefined, undefined, at('https://x.test')).card();
    expect(card.capabilities).toMatchObject({ streaming: false, pushNotifications: true });
  });

  test('are signed, the extended one too', async () => {
    const sign = (card: AgentCard): Promise<AgentCard> => Promise.resolve({ ...card, name: `${card.name}, signed` });
    const extended = (): Promise<AgentCard> => Promise.resolve(AgentCard.fromJSON({ name: 'more' }));
    const cards = new AgentCards(input, extended, sign, at('https://x.test'));
    expect((await cards.card()).name).toBe('agent, signed');
    expect((await cards.extendedCard(new ServerCallContext()))?.name).toBe('more, signed');
  });

  test('are signed once each, also by a generator that writes into what it is given', async () => {
    const sign = (card: AgentCard): Promise<AgentCard> => {
      card.signatures.push({ protected: 'p', signature: 's', header: undefined });
      card.capabilities!.streaming = false;
      return Promise.resolve(card);
    };
    const cards = new AgentCards(input, undefined, sign, at('https://x.test'));
    await cards.card();
    expect((await cards.card()).signatures).toHaveLength(1);
    expect(cards.offered.capabilities?.streaming).toBe(true);
  });

  test('show a fixed extended card to authenticated callers only, and ask a function about each', async () => {
    const more = AgentCard.fromJSON({ name: 'more' });
    const cards = new AgentCards(input, more, undefined, at('https://x.test'));
    const alice = new ServerCallContext({ user: { isAuthenticated: true, userName: 'alice' } });
    expect((await cards.extendedCard(new ServerCallContext()))?.name).toBe('agent');
    expect((await cards.extendedCard(alice))?.name).toBe('more');
    const asked = new AgentCards(
      input,
      ({ user }) => Promise.resolve({ ...more, name: `for ${user?.userName}` }),
      undefined,
      at('https://x.test'),
    );
    expect((await asked.extendedCard(alice))?.name).toBe('for alice');
    expect(await new AgentCards(input, undefined, undefined, at('u')).extendedCard(alice)).toBeUndefined();
  });
});
