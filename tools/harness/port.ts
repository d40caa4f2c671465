import { createServer } from 'node:net';

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
