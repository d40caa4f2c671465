import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { RoundRobinProxy } from './round-robin.proxy.js';

const opened: Server[] = [];
let proxy: RoundRobinProxy;

async function serve(listener: RequestListener): Promise<void> {
  const server = createServer(listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  opened.push(server);
  proxy.add(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

beforeEach(async () => {
  proxy = await RoundRobinProxy.listen();
});

afterEach(async () => {
  await proxy.close();
  for (const server of opened.splice(0)) {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  }
});

describe('RoundRobinProxy', () => {
  it('sends each request to the next target, over one connection too, and brings its answer back', async () => {
    for (const name of ['A', 'B', 'C']) {
      await serve((req, res) => {
        res.writeHead(201, { 'x-name': name });
        req.pipe(res);
      });
    }
    const names: (string | null)[] = [];
    for (let n = 0; n < 6; n += 1) {
      const response = await fetch(`${proxy.url}/path?query`, { method: 'POST', body: `body ${n}` });
      expect([response.status, await response.text()]).toEqual([201, `body ${n}`]);
      names.push(response.headers.get('x-name'));
    }
    expect(names).toEqual(['A', 'B', 'C', 'A', 'B', 'C']);
  });

  it('passes on what is streamed as it comes, and hangs up where the client has', async () => {
    let gone: Promise<unknown> | undefined;
    await serve((_req, res) => {
      gone = once(res, 'close');
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write('one');
    });
    const client = new AbortController();
    const response = await fetch(proxy.url, { signal: client.signal });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader.read()).value).toBe('one'); // the target has not ended its answer
    client.abort();
    await gone;
  });

  it('answers 503 without any target, and 502 for one that is not there', async () => {
    expect((await fetch(proxy.url)).status).toBe(503);
    const closed = await RoundRobinProxy.listen();
    proxy.add(closed.url);
    await closed.close();
    expect((await fetch(proxy.url)).status).toBe(502);
  });

  it('breaks off what the target breaks off', async () => {
    await serve((_req, res) => {
      res.writeHead(200);
      res.write('half', () => res.destroy());
    });
    await expect(fetch(proxy.url).then((response) => response.text())).rejects.toThrow();
  });
});
