import { AgentCard, type Message, Role, SendMessageRequest, type Task, TaskState } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { REQUEST_DEFAULTS } from '../options/request.options.js';
import {
  checkId,
  checkListTasks,
  checkScope,
  requireExtensions,
  requireId,
  requireInputModes,
  requireMessage,
  withHistory,
} from './request-validation.js';

const message = (fields: Partial<Message> = {}): Message => ({
  messageId: 'm',
  taskId: '',
  contextId: '',
  role: Role.ROLE_USER,
  parts: [],
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
  ...fields,
});

const request = (fields: Partial<Message>): SendMessageRequest => ({
  ...SendMessageRequest.fromJSON({}),
  message: message(fields),
});

const bad: [string, string, RegExp][] = [
  ['a NUL', 'a\0b', /NUL/],
  ['a lone high surrogate', 'a\ud83d', /well-formed/],
  ['a lone low surrogate', '\udc4da', /well-formed/],
  ['513 bytes', 'x'.repeat(513), /512 bytes/],
  ['257 characters of two bytes', 'ä'.repeat(257), /512 bytes/],
];

describe('The lists of a message', () => {
  const limits = { ...REQUEST_DEFAULTS, maxParts: 2, maxReferenceTasks: 2 };
  const part = { content: undefined, metadata: undefined, filename: '', mediaType: '' };

  test('that are longer than their limit are refused by number and limit', () => {
    expect(() => requireMessage(request({ parts: [part, part, part] }), limits)).toThrow(
      'message has 3 parts: it may have at most 2.',
    );
    expect(() => requireMessage(request({ referenceTaskIds: ['a', 'b', 'c'] }), limits)).toThrow(
      'message has 3 different referenceTaskIds: it may have at most 2.',
    );
    expect(() => requireMessage(request({ extensions: Array<string>(101).fill('https://x') }), limits)).toThrow(
      'message has 101 extensions: it may have at most 100.',
    );
  });

  test('count a task that is mentioned often once, and may be as long as their limit', () => {
    const referenceTaskIds = [...Array<string>(50_000).fill('a'), 'b'];
    expect(requireMessage(request({ referenceTaskIds, parts: [part, part] }), limits)).toMatchObject({
      messageId: 'm',
    });
  });
});

describe('Ids', () => {
  test.each(bad)('with %s are refused, saying which', (_what, id, why) => {
    for (const check of [checkId, requireId]) {
      expect(() => check('taskId', id)).toThrow(expect.objectContaining({ name: 'RequestMalformedError' }) as Error);
      expect(() => check('taskId', id)).toThrow(why);
      expect(() => check('taskId', id)).toThrow(/^taskId/);
    }
    for (const field of ['messageId', 'contextId', 'taskId']) {
      expect(() => requireMessage(request({ [field]: id }), REQUEST_DEFAULTS)).toThrow(why);
    }
    expect(() => requireMessage(request({ referenceTaskIds: [id] }), REQUEST_DEFAULTS)).toThrow(why);
    expect(() => checkScope(id, 'owner')).toThrow(why);
    expect(() => checkScope('tenant', id)).toThrow(why);
    expect(() => checkListTasks(listRequest({ contextId: id }))).toThrow(why);
  });

  test.each(['x'.repeat(512), 'ä'.repeat(256), '👍', ' a ', '%00', '-'])('such as %p are fine', (id) => {
    expect(requireId('taskId', id)).toBe(id);
  });

  test.each([undefined, '', ' ', '\t\n'])('that are missing (%p) are refused where they are required', (id) => {
    expect(() => requireId('taskId', id)).toThrow('taskId is required.');
    if (id !== undefined)
      expect(() => requireMessage(request({ messageId: id }), REQUEST_DEFAULTS)).toThrow(/messageId is required/);
  });

  test('a message may leave out its task and context, but not give blank ones', () => {
    expect(requireMessage(request({}), REQUEST_DEFAULTS)).toMatchObject({ messageId: 'm' });
    expect(() => requireMessage(request({ contextId: ' ' }), REQUEST_DEFAULTS)).toThrow(/contextId/);
    expect(() => requireMessage(request({ taskId: ' ' }), REQUEST_DEFAULTS)).toThrow(/taskId/);
    expect(() => requireMessage(SendMessageRequest.fromJSON({}), REQUEST_DEFAULTS)).toThrow('message is required.');
  });
});

describe('ListTasks', () => {
  test.each([1, 50, 100, undefined])('takes a page size of %p', (pageSize) => {
    expect(() => checkListTasks(listRequest({ pageSize }))).not.toThrow();
  });

  test.each([0, -1, 101, 1.5, NaN])('refuses a page size of %p', (pageSize) => {
    expect(() => checkListTasks(listRequest({ pageSize }))).toThrow(/pageSize is .* from 1 to 100/);
  });

  test.each([TaskState.UNRECOGNIZED, 99])('refuses state %p', (status) => {
    expect(() => checkListTasks(listRequest({ status }))).toThrow(/not a task state/);
  });

  test.each(['yesterday', '2020-13-01T00:00:00Z', '7', '+275760-09-13T00:00:00.000Z', '-000001-01-01T00:00:00Z'])(
    'refuses the time %p',
    (statusTimestampAfter) => {
      expect(() => checkListTasks(listRequest({ statusTimestampAfter }))).toThrow(/ISO 8601/);
    },
  );

  test.each(['2020-01-01T00:00:00Z', '2020-01-01T00:00:00.123456+02:00', '2020-01-01'])(
    'takes the time %p',
    (statusTimestampAfter) => {
      expect(() => checkListTasks(listRequest({ statusTimestampAfter }))).not.toThrow();
    },
  );
});

describe('withHistory', () => {
  const task = {
    id: 't',
    contextId: 'c',
    status: undefined,
    artifacts: [],
    metadata: undefined,
    history: ['1', '2', '3'].map((messageId) => message({ messageId })),
  } satisfies Task;

  test.each([
    [undefined, ['1', '2', '3']],
    [0, []],
    [-1, []],
    [2, ['2', '3']],
    [99, ['1', '2', '3']],
  ])('of %p keeps the newest messages %p, and the task as it was', (length, expected) => {
    expect(withHistory(task, length).history.map(({ messageId }) => messageId)).toEqual(expected);
    expect(task.history).toHaveLength(3);
  });
});

describe('Cards', () => {
  const card = AgentCard.fromJSON({
    capabilities: { extensions: [{ uri: 'x:required', required: true }, { uri: 'x:optional' }] },
    defaultInputModes: ['text/plain'],
  });

  test('a required extension must be requested; requested ones that are not offered are not passed on', () => {
    const context = (...requestedExtensions: string[]) => new ServerCallContext({ requestedExtensions });
    expect(() => requireExtensions(card, new ServerCallContext())).toThrow(/x:required/);
    expect(() => requireExtensions(card, context('x:optional'))).toThrow(/x:required/);
    const known = context('x:required', 'x:unknown');
    requireExtensions(card, known);
    expect(known.requestedExtensions).toEqual(['x:required']);
  });

  test('parts in a media type that the card names, or in none, are fine', () => {
    const part = (mediaType: string) => ({ content: undefined, metadata: undefined, filename: '', mediaType });
    expect(() => requireInputModes(card, message({ parts: [part('text/plain'), part('')] }))).not.toThrow();
    expect(() => requireInputModes(card, message({ parts: [part('image/png')] }))).toThrow(/image\/png.*text\/plain/);
    expect(() => requireInputModes(AgentCard.fromJSON({}), message({ parts: [part('image/png')] }))).not.toThrow();
  });
});

function listRequest(fields: object): Parameters<typeof checkListTasks>[0] {
  return {
    tenant: '',
    contextId: '',
    status: 0,
    pageToken: '',
    pageSize: undefined,
    historyLength: undefined,
    statusTimestampAfter: undefined,
    includeArtifacts: undefined,
    ...fields,
  };
}
