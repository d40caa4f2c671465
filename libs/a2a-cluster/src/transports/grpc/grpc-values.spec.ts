import { A2AService } from '@a2a-js/sdk/server/grpc';
import { LegacyA2AService } from '@a2a-js/sdk/compat/v0_3/server/grpc';
import { boundedRequests, isOversized } from './grpc-values.js';

const text = (value: string) => ({
  content: { $case: 'text', value },
  metadata: undefined,
  filename: '',
  mediaType: '',
});

const request = (message: object, metadata?: object): object => ({
  tenant: '',
  configuration: undefined,
  metadata,
  message: {
    messageId: 'm',
    taskId: '',
    contextId: '',
    role: 1,
    parts: [],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...message,
  },
});

const list = Array.from({ length: 200 }, (_, at) => ({ at: [at] }));

describe('A message to the agent over gRPC', () => {
  const bounded = boundedRequests(A2AService, 100);

  /** Whether it is left undecoded, in both methods that take it. */
  function oversizes(given: object): boolean {
    const answers = (['sendMessage', 'sendStreamingMessage'] as const).map((name) => {
      const bytes = A2AService[name].requestSerialize(given as never);
      return isOversized(bounded[name]!.requestDeserialize(bytes));
    });
    expect(answers[0]).toBe(answers[1]);
    return answers[0]!;
  }

  test.each([
    ['parts', request({ parts: Array(101).fill(text('a')) })],
    ['tasks that it refers to', request({ referenceTaskIds: Array(101).fill('a') })],
    ['extensions', request({ extensions: Array(101).fill('a') })],
    ['values in its metadata', request({ metadata: { list } })],
    ['values in its data', request({ parts: [{ ...text(''), content: { $case: 'data', value: { list } } }] })],
    ['values in the metadata of a part', request({ parts: [{ ...text('a'), metadata: { list } }] })],
    ['values in the metadata of the request', request({}, { list })],
  ])('is not decoded where it has more %s than the limit', (_what, given) => {
    expect(oversizes(given)).toBe(true);
  });

  test('is decoded as ever where it has not, whatever its texts and bytes are made of', () => {
    const tricky = String.fromCharCode(10, 0).repeat(5_000);
    const parts = [text(tricky), { ...text(''), content: { $case: 'raw', value: Buffer.from(tricky) } }];
    const given = request({ parts, metadata: { tricky } });
    expect(oversizes(given)).toBe(false);
    const bytes = A2AService.sendMessage.requestSerialize(given as never);
    expect(bounded.sendMessage!.requestDeserialize(bytes) as unknown).toEqual(
      A2AService.sendMessage.requestDeserialize(bytes),
    );
  });

  test('is bounded in version 0.3 too', () => {
    const legacy = boundedRequests(LegacyA2AService, 100);
    const { sendMessage } = LegacyA2AService;
    const legacyRequest = (count: number) => ({
      configuration: undefined,
      metadata: undefined,
      request: {
        messageId: 'm',
        taskId: '',
        contextId: '',
        role: 1,
        metadata: undefined,
        extensions: [],
        content: Array.from({ length: count }, () => ({ part: { $case: 'text', value: 'a' }, metadata: undefined })),
      },
    });
    const decode = (count: number): unknown =>
      legacy.sendMessage!.requestDeserialize(sendMessage.requestSerialize(legacyRequest(count) as never));
    expect([isOversized(decode(40)), isOversized(decode(101))]).toEqual([false, true]);
  });

  test('is left to the decoder where it is not well-formed', () => {
    const bytes = Buffer.from(`12${'ff'.repeat(200)}`, 'hex');
    expect(() => void bounded.sendMessage!.requestDeserialize(bytes)).toThrow();
  });
});
