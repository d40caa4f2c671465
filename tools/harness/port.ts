import { createServer } from 'node:net';

/** Below the ports that outgoing connections take. */
const FIRST_STABLE = 20_000;
const STABLE_COUNT = 10_000;
const TRIES = 50;

/**
 * Finds out which port a server will have before there is a server: the agent card, made at boot, must name it. Port 0
 * becomes a free port; a port in use is an error (EADDRINUSE). Between this call and the listen somebody else may take
 * the port; then the listen fails, and says so.
 */
export function reservePort(host: string, port = 0): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(port, host, () => {
      const address = probe.address();
      const taken = typeof address === 'object' && address !== null ? address.port : port;
      probe.close(() => resolve(taken));
    });
  });
}

/** A free port that stays free while its server is away: it must be free again whenever that comes back. */
export async function stablePort(host: string): Promise<number> {
  for (let left = TRIES; ; left -= 1) {
    try {
      return await reservePort(host, FIRST_STABLE + Math.floor(Math.random() * STABLE_COUNT));
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}
