import fc from 'fast-check';
import { damaged, fragment, garbled } from './damaged-json.js';
import { FuzzedApp, RUNS } from './fuzzed-app.js';
import { bodyOf, expectAnswered, inUrl, type RawRequest } from './http-requests.js';

const fuzzed = new FuzzedApp();

const RECEIVER = {
  id: 'hook',
  url: 'https://203.0.113.7/hook',
  token: 'secret',
  authentication: { schemes: ['Bearer'], credentials: 'secret' },
};

const sending = (taskId: string): object => ({
  message: {
    kind: 'message',
    messageId: 'm1',
    role: 'user',
    contextId: '',
    taskId,
    referenceTaskIds: ['some-task'],
    parts: [
      { kind: 'text', text: 'ask', metadata: { key: ['value'] } },
      { kind: 'data', data: { list: [1, 'two'] } },
      { kind: 'file', file: { bytes: 'aGVsbG8=', mimeType: 'text/plain' } },
    ],
    metadata: { from: 'fuzz' },
  },
  configuration: {
    acceptedOutputModes: ['text/plain'],
    historyLength: 3,
    blocking: true,
    pushNotificationConfig: RECEIVER,
  },
  metadata: { nested: { key: 1 } },
});

/** Good parameters of every method of version 0.3. */
const CALLS: Record<string, (id: string) => object> = {
  'message/send': sending,
  'message/stream': sending,
  'tasks/get': (id) => ({ id, historyLength: 2, metadata: {} }),
  'tasks/cancel': (id) => ({ id, metadata: { why: 'fuzz' } }),
  'tasks/resubscribe': (id) => ({ id }),
  'tasks/pushNotificationConfig/set': (taskId) => ({ taskId, pushNotificationConfig: RECEIVER }),
  'tasks/pushNotificationConfig/get': (id) => ({ id, pushNotificationConfigId: 'hook' }),
  'tasks/pushNotificationConfig/list': (id) => ({ id }),
  'tasks/pushNotificationConfig/delete': (id) => ({ id, pushNotificationConfigId: 'hook' }),
  'agent/getAuthenticatedExtendedCard': () => ({}),
};

const jsonRpcText = fc
  .tuple(fc.constantFrom(...Object.keys(CALLS)), fc.constantFrom('@waiting@', '@ended@', '@unknown@', '@@'))
  .chain(([method, id]) => damaged({ jsonrpc: '2.0', id: 1, method, params: CALLS[method]!(id) }));

const jsonRpcRequest: fc.Arbitrary<RawRequest> = fc
  .oneof({ arbitrary: jsonRpcText, weight: 4 }, { arbitrary: garbled(jsonRpcText), weight: 1 }, fragment)
  .map((body) => ({ method: 'POST', path: '/a2a/jsonrpc', body }));

const restMessage = (taskId: string): object => ({
  message: {
    messageId: 'm1',
    role: 'ROLE_USER',
    contextId: '',
    taskId,
    metadata: { from: 'fuzz' },
    content: [{ text: 'ask' }, { data: { data: { list: [1, 'two'] } } }, { file: { fileWithBytes: 'aGVsbG8=' } }],
  },
  configuration: { acceptedOutputModes: ['text/plain'], historyLength: 3, blocking: true, pushNotification: RECEIVER },
});

const restRequest: fc.Arbitrary<RawRequest> = fc
  .oneof(
    fc.record({
      method: fc.constant('POST'),
      path: fc.constantFrom('/message:send', '/message:stream'),
      body: fc.constantFrom('@waiting@', '@ended@', '@unknown@', '@@').chain((id) => bodyOf(restMessage(id))),
    }),
    fc.record({
      method: fc.constantFrom('POST', 'GET'),
      path: fc.tuple(inUrl, fc.constantFrom(':cancel', ':subscribe')).map(([id, verb]) => `/tasks/${id}${verb}`),
      body: bodyOf({ name: 'tasks/@waiting@' }),
    }),
    fc.record({
      method: fc.constant('POST'),
      path: inUrl.map((id) => `/tasks/${id}/pushNotificationConfigs`),
      body: bodyOf({ parent: 'tasks/@waiting@', configId: 'hook', config: { pushNotificationConfig: RECEIVER } }),
    }),
    fc.record({
      method: fc.constantFrom('GET', 'DELETE'),
      path: fc.tuple(inUrl, inUrl).map(([id, config]) => `/tasks/${id}/pushNotificationConfigs/${config}`),
    }),
    fc.record({
      method: fc.constant('GET'),
      path: fc.oneof(
        fc.tuple(inUrl, inUrl).map(([id, length]) => `/tasks/${id}?historyLength=${length}`),
        inUrl.map((id) => `/tasks/${id}/pushNotificationConfigs`),
        fc.constant('/card'),
      ),
    }),
  )
  .map((request) => ({ ...request, path: `/a2a/rest/v1${request.path}` }));

/** As a client of version 0.3 says it: not at all. */
const legacy = (request: RawRequest): RawRequest => ({ contentType: 'application/json', version: null, ...request });

describe('Damaged requests of version 0.3 are answered with an error of it, and harm nothing', () => {
  test.each([
    ['JSONRPC', jsonRpcRequest],
    ['HTTP+JSON', restRequest],
  ])(
    'over %s',
    async (_transport, requests) => {
      await fc.assert(fc.asyncProperty(requests, (request) => expectAnswered(fuzzed, legacy(request))));
      await fuzzed.expectSound();
    },
    RUNS * 1_000,
  );
});
