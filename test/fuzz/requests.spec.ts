import fc from 'fast-check';
import { damaged, fragment, garbled } from './damaged-json.js';
import { FuzzedApp, RUNS } from './fuzzed-app.js';
import { bodyOf, expectAnswered, inUrl, type RawRequest } from './http-requests.js';
import { CALLS, LISTING, receiver, sending } from './good-requests.js';

const fuzzed = new FuzzedApp();

const jsonRpcCall = fc
  .tuple(fc.constantFrom(...Object.keys(CALLS)), fc.constantFrom('waiting', 'ended', 'unknown', ''))
  .map(([method, which]) => ({ jsonrpc: '2.0', id: 1, method, params: CALLS[method]!(`@${which}@`) }));

const jsonRpcText = jsonRpcCall.chain(damaged);

const jsonRpcRequest: fc.Arbitrary<RawRequest> = fc
  .oneof({ arbitrary: jsonRpcText, weight: 4 }, { arbitrary: garbled(jsonRpcText), weight: 1 }, fragment)
  .map((body) => ({ method: 'POST', path: '/a2a/jsonrpc', body, contentType: 'application/json' }));

const query = fc
  .array(
    fc.tuple(
      fc.constantFrom(...Object.keys(LISTING), 'historyLength', '__proto__', 'status[]', 'a[b][c]'),
      fc.oneof(inUrl, fragment.filter((text) => text.length < 500).map(encodeURIComponent)),
    ),
    { maxLength: 4 },
  )
  .map((pairs) => (pairs.length > 0 ? `?${pairs.map((pair) => pair.join('=')).join('&')}` : ''));

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

describe('Damaged requests are answered with an error of the protocol, and harm nothing', () => {
  test(
    'over JSONRPC',
    async () => {
      await fc.assert(fc.asyncProperty(jsonRpcRequest, (request) => expectAnswered(fuzzed, request)));
      await fuzzed.expectSound();
    },
    RUNS * 1_000,
  );

  test(
    'over HTTP+JSON',
    async () => {
      await fc.assert(fc.asyncProperty(restRequest, (request) => expectAnswered(fuzzed, request)));
      await fuzzed.expectSound();
    },
    RUNS * 1_000,
  );
});
