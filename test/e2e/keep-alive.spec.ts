import { send } from '../../tools/harness/client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { type AgentApp, AgentAppFixture, TRANSPORTS } from './agent-app.fixture.js';
import { callBody, type Transport } from './raw-requests.js';
import { askingAgent } from './agents.js';

const fixture = new AgentAppFixture();

const startWith = (keepAliveMs: number): Promise<AgentApp> =>
  fixture.start({ ...askingAgent, cluster: { streams: { keepAliveMs } } });

/** What a subscription's stream says, line by line, as it stands on the wire. */
class RawSubscription {
  readonly lines: string[] = [];
  private readonly chunks: AsyncIterator<string, undefined>;

  private constructor(body: ReadableStream<Uint8Array>) {
    this.chunks = (body.pipeThrough(new TextDecoderStream()) as AsyncIterable<string, undefined>)[
      Symbol.asyncIterator
    ]();
  }

  static async open(app: AgentApp, transport: Transport, id: string): Promise<RawSubscription> {
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
    const response = await (transport === 'JSONRPC'
      ? fetch(`${app.url}/a2a/jsonrpc`, {
          method: 'POST',
          headers,
          body: callBody(transport, 'SubscribeToTask', { id }),
        })
      : fetch(`${app.url}/a2a/rest/tasks/${id}:subscribe`, { method: 'POST', headers, body: '{}' }));
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    return new RawSubscription(response.body!);
  }

  /** Reads on until this many lines begin like this. */
  async until(start: string, count: number): Promise<void> {
    while (this.count(start) < count) {
      const { done, value } = await this.chunks.next();
      if (done) throw new Error(`The stream ended with ${this.count(start)} lines that begin with ${start}`);
      this.lines.push(...value.split('\n'));
    }
  }

  /** Reads to the end. */
  async rest(): Promise<void> {
    for (;;) {
      const { done, value } = await this.chunks.next();
      if (done) return;
      this.lines.push(...value.split('\n'));
    }
  }

  count(start: string): number {
    return this.lines.filter((line) => line.startsWith(start)).length;
  }
}

describe.each(TRANSPORTS)('A silent stream over %s', (transport) => {
  test('carries comments, between the events and not in them, and clients skip them', async () => {
    const app = await startWith(20);
    const client = await app.client({ transport });
    const { id: taskId } = await send(client, 'ask');
    const raw = await RawSubscription.open(app, transport, taskId);
    const subscriber = Recording.subscribe(client, taskId);
    await raw.until(': keep-alive', 3);
    await send(client, 'again', { taskId });
    await raw.until(': keep-alive', 6);
    await send(client, 'end', { taskId });
    await raw.rest();
    const responses = await subscriber.finished();
    expect(raw.count('data: {')).toBe(responses.length);
    expect(raw.lines.filter((line) => !/^(: keep-alive|data: \{.*\}|)$/.test(line))).toEqual([]);
    expect(stateName(await client.getTask({ tenant: '', id: taskId, historyLength: 0 }))).toBe('COMPLETED');
  });

  test('carries none with keepAliveMs: Infinity', async () => {
    const [silent, talking] = [await startWith(Infinity), await startWith(20)];
    const client = await silent.client({ transport });
    const { id: taskId } = await send(client, 'ask');
    const [without, beside] = await Promise.all(
      [silent, talking].map((app) => RawSubscription.open(app, transport, taskId)),
    );
    await beside!.until(': keep-alive', 5);
    await send(client, 'end', { taskId });
    await Promise.all([without!.rest(), beside!.rest()]);
    expect(without!.count(':')).toBe(0);
    expect(without!.count('data: {')).toBe(beside!.count('data: {'));
  });
});
