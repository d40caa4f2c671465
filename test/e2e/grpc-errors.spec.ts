import { status } from '@grpc/grpc-js';
import { errorName, send } from '../../tools/harness/client.js';
import { RawGrpcClient, statusOf } from '../helpers/raw-grpc-client.js';
import { stateName } from '../helpers/recording.js';
import { Deferred } from '../../tools/harness/wait.js';
import { AgentAppFixture, cardWith } from './agent-app.fixture.js';
import { completed } from './agent-events.js';
import { grpcRequest as request, targetOf, withGrpc } from './grpc.fixture.js';
import { askingAgent } from './agents.js';

const fixture = new AgentAppFixture();

describe('Errors over gRPC', () => {
  test('may quote in their header what no header may hold', async () => {
    const app = await fixture.start(withGrpc(askingAgent));
    const { code, details } = await new RawGrpcClient(targetOf(app)).failure('getTask', {
      tenant: '',
      id: '👍'.repeat(200),
    });
    expect([code, details]).toEqual([status.INVALID_ARGUMENT, expect.stringMatching(/longer than 512 bytes/)]);
  });

  test('tell an extension that is required, and whoever knows it is served', async () => {
    const extensions = [{ uri: 'https://example.com/ext', required: true, description: '', params: undefined }];
    const requested = new Deferred<readonly string[] | undefined>();
    const app = await fixture.start(
      withGrpc({
        execute: (context, bus) => {
          requested.resolve(context.context?.requestedExtensions);
          completed(bus, context);
        },
        cluster: { agentCard: cardWith({ extensions }) },
      }),
    );
    const client = await app.client({ transport: 'GRPC' });
    expect(await errorName(send(client, 'hello'))).toBe('ExtensionSupportRequiredError');
    const serviceParameters = { 'A2A-Extensions': 'https://example.com/ext,https://example.com/unknown' };
    await client.sendMessage(request('hello') as never, { serviceParameters });
    expect(await requested.promise).toEqual(['https://example.com/ext']);
  });

  test('do not come of the patch number of a version', async () => {
    const app = await fixture.start(withGrpc({ ...askingAgent, cluster: { legacyCompat: true } }));
    const raw = new RawGrpcClient(targetOf(app));
    const failure = async (version: string): Promise<number> =>
      (await raw.failure('getTask', { tenant: '', id: 'x' }, { 'a2a-version': version })).code;
    expect(await failure('1.0.3')).toBe(status.NOT_FOUND);
    for (const version of ['1.1.0', '1.0.x', '0.3.0']) expect(await failure(version)).toBe(status.FAILED_PRECONDITION);
  });

  test('of our own are logged, and not told', async () => {
    const app = await fixture.start(
      withGrpc({ ...askingAgent, cluster: { cardSignature: () => Promise.reject(new Error('the key is 1234')) } }),
    );
    const { details } = await new RawGrpcClient(targetOf(app)).failure('getTask', { tenant: '', id: 'x' });
    expect(details).toBe('Internal error; the agent has logged it.');
    expect(fixture.logger.errors.join()).toContain('1234');
  });

  test('a message that is nested too deep for anybody behind it is malformed', async () => {
    const app = await fixture.start(withGrpc({ execute: (context, bus) => completed(bus, context) }));
    const nested = (levels: number): object => ({ ...request('deep'), metadata: nestedObject(levels) });
    const { code, details } = await new RawGrpcClient(targetOf(app)).failure('sendMessage', nested(500));
    expect([code, details]).toEqual([status.INVALID_ARGUMENT, expect.stringContaining('nested deeper than')]);
    const answer = new RawGrpcClient(targetOf(app)).stream('sendStreamingMessage', nested(100)).resume();
    expect((await statusOf(answer)).code).toBe(status.OK);
  });

  const nestedObject = (levels: number): object => {
    let value = {};
    for (let level = 0; level < levels; level += 1) value = { value };
    return value;
  };

  test('a message above the limit is refused, one below it taken, above the usual 4 MiB too', async () => {
    const app = await fixture.start(
      withGrpc({
        execute: (context, bus) => completed(bus, context),
        cluster: { leases: { heartbeatIntervalMs: 15_000, ttlMs: 60_000 }, transports: { bodyLimitBytes: 6_000_000 } },
      }),
    );
    const raw = new RawGrpcClient(targetOf(app));
    const refused = await raw.failure('sendMessage', request('x'.repeat(6_000_001)));
    expect([refused.code, refused.details]).toEqual([
      status.RESOURCE_EXHAUSTED,
      expect.stringContaining('larger than max'),
    ]);
    const client = await app.client({ transport: 'GRPC' });
    const configuration = { historyLength: 0 };
    expect(stateName(await send(client, 'x'.repeat(5_000_000), { configuration }))).toBe('COMPLETED');
  });
});
