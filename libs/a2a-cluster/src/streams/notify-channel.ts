import { createHash, randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import type { Client } from 'pg';
import { messageOf } from '../errors/described.js';
import type { ClusterDatabase } from '../database/cluster-database.js';
import type { DedicatedConnection } from '../database/dedicated-connection.js';
import { racePoint } from '../race-points/race-points.js';
import type { WakeupListener } from './task-event-stream.js';

/** PostgreSQL refuses payloads of 8000 bytes and more. */
const MAX_PAYLOAD_BYTES = 7_500;
/** NOTIFY takes a database-wide lock at commit: bursts are gathered for this long. */
const GATHER_MS = 4;
/** How many rounds go by between two looks at a connection that seems well. */
const ROUNDS_PER_PING = 5;

/**
 * Wake-ups between replicas by LISTEN and NOTIFY on one connection of its own. Only task numbers travel, outside of the
 * transactions that write. Everything here is a hint: what is lost is found by the poll.
 */
export class NotifyChannel {
  private readonly logger = new Logger('A2AClusterNotifyChannel');
  private readonly connection: DedicatedConnection;
  private readonly channel: string;
  private readonly self = randomUUID();
  private pending = new Set<number>();
  private timer: NodeJS.Timeout | undefined;
  private sending: Promise<void> | undefined;
  private closed = false;
  private rounds = 0;

  constructor(
    database: ClusterDatabase,
    tasksTable: string,
    private readonly timeoutMs: number,
    private readonly listener: WakeupListener,
  ) {
    // Apps that share a database but not their tables do not wake each other.
    this.channel = `a2a_${createHash('sha256').update(tasksTable).digest('hex').slice(0, 16)}`;
    this.connection = database.dedicated(
      (client) => this.listen(client),
      () => (this.rounds = 0),
    );
  }

  /** Makes sure that the connection is there and answers; a dead or silent one is replaced. */
  async runOnce(): Promise<void> {
    if (this.closed || this.rounds++ % ROUNDS_PER_PING !== 0) return;
    try {
      await this.connection.connect(this.timeoutMs);
    } catch (error) {
      this.rounds = 0;
      this.logger.warn(`No wake-ups from other replicas for now, polling instead: ${messageOf(error)}`);
    }
  }

  /** Wakes the other replicas for a task, soon. */
  send(taskNo: number): void {
    if (this.closed) return;
    this.pending.add(taskNo);
    if (!this.timer && !this.sending) this.timer = setTimeout(() => this.flush(), 0);
  }

  async close(): Promise<void> {
    if (this.pending.size > 0) this.flush();
    this.closed = true;
    clearTimeout(this.timer);
    await this.sending;
    await this.connection.close();
  }

  private async listen(client: Client): Promise<void> {
    client.on('notification', ({ payload }) => this.receive(payload ?? ''));
    await client.query(`LISTEN ${this.channel}`);
    // Listening first, then catching up: what was committed in the gap woke nobody.
    this.listener(undefined);
  }

  private receive(payload: string): void {
    const [sender, numbers] = payload.split(':');
    if (sender === this.self || !numbers) return;
    this.listener(numbers.split(',').map(Number));
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const numbers = [...this.pending];
    this.pending = new Set();
    this.sending = this.transmit(numbers)
      .catch((error: unknown) =>
        this.logger.debug(`A wake-up was not sent, the poll will find it: ${messageOf(error)}`),
      )
      .finally(() => {
        this.sending = undefined;
        if (this.pending.size > 0 && !this.closed) this.timer = setTimeout(() => this.flush(), GATHER_MS);
      });
  }

  private async transmit(numbers: number[]): Promise<void> {
    racePoint('notify.before');
    for (const payload of payloads(`${this.self}:`, numbers)) {
      await this.connection.query('SELECT pg_notify($1, $2)', [this.channel, payload], this.timeoutMs);
    }
    racePoint('notify.after');
  }
}

function payloads(head: string, numbers: number[]): string[] {
  const made: string[] = [];
  let current = '';
  for (const number of numbers) {
    if (head.length + current.length > MAX_PAYLOAD_BYTES) {
      made.push(head + current);
      current = '';
    }
    current += current ? `,${number}` : String(number);
  }
  return current ? [...made, head + current] : made;
}
