import { reservePort } from '../../../tools/harness/port.js';

/** Below the ports that outgoing connections take: it must be free again whenever its server comes back. */
const FIRST = 20_000;
const COUNT = 10_000;
const TRIES = 50;

/** A free port that stays free while its server is away. */
export async function stablePort(host: string): Promise<number> {
  for (let left = TRIES; ; left -= 1) {
    try {
      return await reservePort(host, FIRST + Math.floor(Math.random() * COUNT));
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}
