import fc from 'fast-check';
import { damaged, fragment, garbled } from './damaged-json.js';
import { FuzzedApp, RUNS } from './fuzzed-app.js';
import { CALLS, LISTING, receiver, sending } from './good-requests.js';

const fuzzed = new FuzzedApp();

/** A request as it goes out. */
interface RawRequest {
  method: string;
  path: string;
  body?: string | Buffer;
  contentType?: string;
}

const jsonRpcCall = fc
  .tuple(fc.constantFrom(...Object.keys(CALLS)), fc.constantFrom('waiting', 'ended', 'unknown', ''))
  .map(([method, which]) => ({ jsonrpc: '2.0', id: 1, method, params: CALLS[method]!(`@${which}@`) }));

const jsonRpcText = jsonRpcCall.chain(damaged);

const jsonRpcRequest: fc.Arbitrary<RawRequest> = fc
  .oneof({ arbitrary: jsonRpcText, weight: 4 }, { arbitrary: garbled(jsonRpcText), weight: 1 }, fragment)
  .map((body) => ({ method: 'POST', path: '/a2a/jsonrpc', body, contentType: 'application/json' }));

/** Ids and query values that stand in a URL. */
const inUrl = fc.oneof(
  fc.constantFrom('@waiting@', '@ended@', '@unknown@', '..', '%00', '%ff', '%E0%A4%A', 'a%2Fb', '__proto__', '*', ':'),
  fc.string({ unit: 'binary', maxLength: 12 }).map((text) => encodeURIComponent(Buffer.from(text).toString())),
  fc.constant('x'.repeat(2_000)),
);

const query = fc
  .array(
    fc.tuple(
      fc.constantFrom(...Object.keys(LISTING), 'historyLength', '__proto__', 'status[]', 'a[b][c]'),
      fc.oneof(inUrl, fragment.filter((text) => text.length < 500).map(encodeURIComponent)),
    ),
    { maxLength: 4 },
  )
  .map((pairs) => (pairs.length > 0 ? `?${pairs.map((pair) => pair.join('=')).join('&')}` : ''));

const bodyOf = (document: object): fc.Arbitrary<string | Buffer> =>
  fc.oneof({ arbitrary: damaged(document), weight: 4 }, { arbitrary: garbled(damaged(document)), weight: 1 });

const restRequest: fc.Arbitrary<RawRequest> = fc
  .oneof(
    fc.record({
      method: fc.constant('POST'),
      path: fc.constantFrom('/message:send', '/message:stream', '/acme/message:send'),
      body: fc.constantFrom('@waiting@', '@ended@', '@unknown@', '@@').chain((id) => bodyOf(sending(id))),
    }),
    fc.record({
      method: fc.constantFrom('POST', 'GET'),
      path: fc.tuple(inUrl, fc.constantFrom(':cancel', ':subscribe')).map(([id, verb]) => `/tasks/${id}${verb}`),
      body: bodyOf({ metadata: { why: 'fuzz' } }),
    }),
    fc.record({
      method: fc.constant('POST'),
      path: inUrl.map((id) => `/tasks/${id}/pushNotificationConfigs`),
      body: bodyOf(receiver('@waiting@')),
    }),
    fc.record({
      method: fc.constantFrom('GET', 'DELETE'),
      path: fc.tuple(inUrl, inUrl).map(([id, config]) => `/tasks/${id}/pushNotificationConfigs/${config}`),
    }),
    fc.record({
      method: fc.constant('GET'),
      path: fc.oneof(
        query.map((given) => `/tasks${given}`),
        fc.tuple(inUrl, query).map(([id, given]) => `/tasks/${id}${given}`),
        fc.tuple(inUrl, query).map(([tenant, given]) => `/${tenant}/tasks${given}`),
        inUrl.map((id) => `/tasks/${id}/pushNotificationConfigs`),
        fc.constant('/extendedAgentCard'),
      ),
    }),
  )
  .map((request) => ({ contentType: 'application/json', ...request, path: `/a2a/rest${request.path}` }));

/** Sends it, and reads the answer; of a stream that stays open only the beginning. */
async function exchange({ method, path, body, contentType }: RawRequest): Promise<{ status: number; text: string }> {
  const headers = { 'a2a-version': '1.0', ...(contentType !== undefined && { 'content-type': contentType }) };
  const sent = typeof body === 'string' ? fuzzed.named(body) : body;
  const response = await fetch(fuzzed.app.url + fuzzed.named(path), {
    ...{ method, headers },
    ...(method !== 'GET' && sent !== undefined && { body: sent }),
  });
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    return { status: response.status, text: await response.text() };
  }
  const reader = response.body!.getReader();
  const { value } = (await reader.read()) as { value?: Uint8Array };
  await reader.cancel();
  return { status: response.status, text: Buffer.from(value ?? []).toString() };
}

async function expectAnswered(request: RawRequest): Promise<void> {
  fuzzed.fixture.logger.clear();
  const { status, text } = await exchange(request);
  expect(status).toBeLessThan(500);
  expect(text).not.toContain('-32603');
  fuzzed.expectDiscreet(text);
}

describe('Damaged requests are answered with an error of the protocol, and harm nothing', () => {
  test(
    'over JSONRPC',
    async () => {
      await fc.assert(fc.asyncProperty(jsonRpcRequest, expectAnswered));
      await fuzzed.expectSound();
    },
    RUNS * 1_000,
  );

  test(
    'over HTTP+JSON',
    async () => {
      await fc.assert(fc.asyncProperty(restRequest, expectAnswered));
      await fuzzed.expectSound();
    },
    RUNS * 1_000,
  );
});
