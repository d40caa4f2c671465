import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterFairly } from './fair-timeout.js';

/** Nothing else runs in this process meanwhile. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe('A time-out on this side', () => {
  let server: Server;
  let here: Socket;
  let there: Socket;

  beforeEach(async () => {
    server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    here = connect((server.address() as AddressInfo).port, '127.0.0.1');
    [there] = await accepted;
    await once(here, 'ready');
  });

  afterEach(() => {
    here.destroy();
    there.destroy();
    server.close();
  });

  /** What comes first: the answer, or the verdict that there is none. */
  function first(timeoutMs: number): Promise<'answer' | 'time-out'> {
    return new Promise((resolve) => {
      const cancel = afterFairly(timeoutMs, () => resolve('time-out'));
      here.once('data', () => {
        cancel();
        resolve('answer');
      });
    });
  }

  it('B.8 is not declared over an answer that has arrived while the event loop was blocked', async () => {
    const outcome = first(30);
    there.write('answer');
    block(40);
    expect(await outcome).toBe('answer');
  });

  it('B.8 gives what could be sent only after the event loop was blocked a moment for its answer', async () => {
    const outcome = first(400);
    setTimeout(() => setTimeout(() => there.write('answer'), 20), 0);
    block(500);
    expect(await outcome).toBe('answer');
  });

  it('is declared where nothing comes, blocked or not', async () => {
    expect(await first(20)).toBe('time-out');
    const outcome = first(20);
    block(200);
    expect(await outcome).toBe('time-out');
  });

  it('is called off at any moment, and never comes where it is infinite', async () => {
    let expired = 0;
    const cancels = [0, 5, Infinity].map((ms) => afterFairly(ms, () => (expired += 1)));
    block(10);
    cancels.forEach((cancel) => cancel());
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(expired).toBe(0);
  });
});
