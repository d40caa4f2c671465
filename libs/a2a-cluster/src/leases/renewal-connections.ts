import type { DedicatedConnection } from '../database/dedicated-connection.js';

/** As many renewals are under way at once. */
const CONNECTIONS = 3;

/**
 * Connections of the renewals' own, which users' transactions cannot starve: a renewal that goes out beside one that has no
 * answer yet does not stand behind it. As long as all are answered there is one.
 */
export class RenewalConnections {
  private readonly connections: { connection: DedicatedConnection; calls: number }[] = [];

  constructor(private readonly make: () => DedicatedConnection) {}

  async use<T>(work: (connection: DedicatedConnection) => Promise<T>): Promise<T> {
    const one = this.leastUsed();
    one.calls += 1;
    try {
      return await work(one.connection);
    } finally {
      one.calls -= 1;
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.connections.map(({ connection }) => connection.close()));
  }

  private leastUsed() {
    const least = this.connections.reduce<(typeof this.connections)[number] | undefined>(
      (best, one) => (best && best.calls <= one.calls ? best : one),
      undefined,
    );
    if (least && (least.calls === 0 || this.connections.length === CONNECTIONS)) return least;
    const one = { connection: this.make(), calls: 0 };
    this.connections.push(one);
    return one;
  }
}
