import { jest } from '@jest/globals';
import fc from 'fast-check';
import { AgentAppFixture, type AgentApp, type AgentBehaviour } from '../e2e/agent-app.fixture.js';
import { completed, inputRequired, textOf } from '../e2e/agent-events.js';
import { send } from '../helpers/client.js';
import { stateName } from '../helpers/recording.js';
import { damaged, fragment, garbled } from './damaged-json.js';

/** CI asks the same questions every time; `npm run fuzz` asks new ones for longer. */
const RUNS = Number(process.env.FUZZ_RUNS ?? 250);
const SEED = process.env.FUZZ_SEED === undefined ? 20_261_130 : Number(process.env.FUZZ_SEED);

const fixture = new AgentAppFixture();

const agent: AgentBehaviour = {
  execute: (context, bus) =>
    textOf(context.userMessage) === 'ask' ? inputRequired(bus, context) : completed(bus, context),
};

/** A request as it goes out. */
interface RawRequest {
  method: string;
  path: string;
  body?: string | Buffer;
  contentType?: string;
}

let app: AgentApp;
/** A task that waits and one that has ended, for requests that name one. */
let ids: string[];

// The SDK warns on the console of every body whose tenant is another than its URL's.
jest.spyOn(console, 'warn').mockImplementation(() => undefined);

fc.configureGlobal({ numRuns: RUNS, seed: SEED });

beforeEach(async () => {
  const capabilities = { streaming: true, pushNotifications: true, extensions: [] };
  app = await fixture.start({
    ...agent,
    cluster: {
      agentCard: { name: 'fuzzed', description: 'takes anything', version: '1', capabilities },
      transports: { bodyLimitBytes: 1_000_000 },
      push: { maxAttempts: 1, timeoutMs: 100 },
    },
  });
  const client = await app.client();
  ids = [(await send(client, 'ask')).id, (await send(client, 'end')).id];
});

const messageOf = (taskId: string, text: string): object => ({
  ...{ messageId: 'm1', contextId: '', taskId, role: 'ROLE_USER', referenceTaskIds: ['some-task'] },
  parts: [{ text, metadata: { key: ['value'] } }, { data: { list: [1, 'two'] } }, { raw: 'aGVsbG8=' }],
  ...{ metadata: { from: 'fuzz' }, extensions: ['https://example.com/x'] },
});

const sending = (taskId: string): object => ({
  tenant: '',
  message: messageOf(taskId, 'ask'),
  configuration: {
    acceptedOutputModes: ['text/plain'],
    historyLength: 3,
    returnImmediately: false,
    taskPushNotificationConfig: receiver(taskId),
  },
  metadata: { nested: { key: 1 } },
});

const receiver = (taskId: string): object => ({
  ...{ id: 'hook', taskId, url: 'https://203.0.113.7/hook', token: 'secret' },
  authentication: { scheme: 'Bearer', credentials: 'secret' },
});

const LISTING = {
  ...{ tenant: '', contextId: 'c', status: 'TASK_STATE_WORKING', pageSize: 5, pageToken: 'x', historyLength: 1 },
  ...{ statusTimestampAfter: '2026-01-01T00:00:00Z', includeArtifacts: true },
};

/** Good parameters of every method. */
const CALLS: Record<string, (id: string) => object> = {
  SendMessage: sending,
  SendStreamingMessage: sending,
  GetTask: (id) => ({ tenant: '', id, historyLength: 2 }),
  ListTasks: () => LISTING,
  CancelTask: (id) => ({ tenant: '', id, metadata: { why: 'fuzz' } }),
  SubscribeToTask: (id) => ({ tenant: '', id }),
  CreateTaskPushNotificationConfig: (id) => receiver(id),
  GetTaskPushNotificationConfig: (taskId) => ({ tenant: '', taskId, id: 'hook' }),
  ListTaskPushNotificationConfigs: (taskId) => ({ tenant: '', taskId, pageSize: 1, pageToken: '' }),
  DeleteTaskPushNotificationConfig: (taskId) => ({ tenant: '', taskId, id: 'hook' }),
  GetExtendedAgentCard: () => ({ tenant: '' }),
};

const jsonRpcCall = fc
  .tuple(fc.constantFrom(...Object.keys(CALLS)), fc.constantFrom('waiting', 'ended', 'unknown', ''))
  .map(([method, which]) => ({ jsonrpc: '2.0', id: 1, method, params: CALLS[method]!(`@${which}@`) }));

/** The ids of tasks are only known when a request goes out. */
const named = (text: string): string =>
  text
    .replaceAll('@waiting@', ids[0]!)
    .replaceAll('@ended@', ids[1]!)
    .replaceAll('@unknown@', 'no-such-task')
    .replaceAll('@@', '');

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
  const sent = typeof body === 'string' ? named(body) : body;
  const response = await fetch(app.url + named(path), {
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

/** What no client is to read: stacks, files, SQL, and names of ours. */
const INTERNALS =
  /\\n\s+at |node_modules|typeorm|QueryFailed|a2a_task|SELECT |INSERT |RangeError|TypeError|Maximum call/;

async function expectAnswered(request: RawRequest): Promise<void> {
  fixture.logger.clear();
  const { status, text } = await exchange(request);
  expect(status).toBeLessThan(500);
  expect(text).not.toMatch(INTERNALS);
  expect(text).not.toContain('-32603');
  expect(fixture.logger.errors).toEqual([]);
}

async function expectSound(): Promise<void> {
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  expect(stateName(await send(await app.client(), 'still there?'))).toBe('COMPLETED');
  const broken = await fixture.database.query(
    `SELECT task_id FROM a2a_tasks AS t
      WHERE version <> (SELECT count(*) FROM a2a_task_events AS e WHERE e.task_no = t.task_no)`,
  );
  expect(broken).toEqual([]);
}

describe('Damaged requests are answered with an error of the protocol, and harm nothing', () => {
  test(
    'over JSONRPC',
    async () => {
      await fc.assert(fc.asyncProperty(jsonRpcRequest, expectAnswered));
      await expectSound();
    },
    RUNS * 1_000,
  );

  test(
    'over HTTP+JSON',
    async () => {
      await fc.assert(fc.asyncProperty(restRequest, expectAnswered));
      await expectSound();
    },
    RUNS * 1_000,
  );
});
