import { subscribe } from 'node:diagnostics_channel';
import { setImmediate as nextRound } from 'node:timers/promises';

/**
 * What a replica is started with besides its own code (`--expose-gc --import`), so that a test can ask it what it holds:
 * at SIGUSR2 it writes one line, `usage N JSON`. Plain JavaScript: Node 20 runs no TypeScript.
 */

const responses = new Set();
const ports = new Set();
let reports = 0;

subscribe('http.server.request.start', ({ response }) => {
  responses.add(response);
  response.once('close', () => responses.delete(response));
});

subscribe('net.server.socket', ({ socket }) => {
  const port = socket.remotePort;
  ports.add(port);
  socket.once('close', () => ports.delete(port));
});

process.on('SIGUSR2', () => void report());

async function report() {
  reports += 1;
  const number = reports;
  // What is freed by callbacks of one collection is garbage of the next.
  for (let round = 0; round < 3; round += 1) {
    globalThis.gc();
    await nextRound();
  }
  const { heapUsed, external } = process.memoryUsage();
  const usage = { memoryBytes: heapUsed + external, openResponses: responses.size, ports: [...ports] };
  process.stdout.write(`usage ${number} ${JSON.stringify(usage)}\n`);
}
