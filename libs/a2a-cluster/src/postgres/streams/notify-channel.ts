import { createHash, randomUUID } from 'node:crypto';
import type { Client } from 'pg';
import { messageOf } from '../../errors/described.js';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import type { DedicatedConnection } from '../connection/dedicated-connection.js';
import { type Bound, boundedBy } from '../../async/late-timer.js';
import { racePoint } from '../../race-points/race-points.js';
import type { WakeupListener } from '../../streams/task-event-stream.js';
import { LibraryLogger } from '../../logging/library.logger.js';

/** PostgreSQL refuses payloads of 8000 bytes and more. */
const MAX_PAYLOAD_BYTES = 7_500;
/** NOTIFY takes a database-wide lock at commit: bursts are gathered for this long. */
const GATHER_MS = 4;
/** How many rounds go by between two looks at a connection that seems well. */
const ROUNDS_PER_PING = 5;
/** How long a notification to oneself may take, in ms. Directly it is there within a few. */
const PROBE_MS = 2_000;
/** How long is polled only, once a pooler was found in the way, in ms: it may be gone by then. */
const POOLED_MS = 10 * 60_000;
/** The pauses after wake-ups that could not be sent double, in ms. */
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 30_000;
/** A warning of the same kind comes at most this often, in ms. */
const WARN_EVERY_MS = 60_000;

/**
 * Wake-ups between replicas by LISTEN and NOTIFY on one connection of its own. Only task numbers travel, outside of the
 * transactions that write. Everything here is a hint: what is lost is found by the poll.
 */
export class NotifyChannel {
  private readonly logger = new LibraryLogger('A2AClusterNotifyChannel');
  private readonly connection: DedicatedConnection;
  private readonly channel: string;
  private readonly self = randomUUID();
  private pending = new Set<number>();
  private timer: NodeJS.Timeout | undefined;
  private sending: Promise<void> | undefined;
  private closed = false;
  private rounds = 0;
  /** Notifications are known to reach the session that now listens. */
  private proven = false;
  /** Called with the notification to oneself. */
  private heard: (() => void) | undefined;
  /** A pooler was found in the way. Until this monotonic time nothing is sent or listened for. */
  private pooledUntil = -Infinity;
  private warnedOfPooler = false;
  /** The last wake-ups were not sent. Until this monotonic time no other is tried. */
  private pausedUntil = -Infinity;
  private pauseMs = 0;
  /** How many were not sent and not spoken of. */
  private unsent = 0;
  private readonly unsentWarning = new Seldom(WARN_EVERY_MS);
  private readonly lostWarning = new Seldom(WARN_EVERY_MS);

  constructor(
    private readonly database: ClusterDatabase,
    tasksTable: string,
    private readonly timeoutMs: number,
    private readonly listener: WakeupListener,
  ) {
    // Apps that share a database but not their tables do not wake each other.
    this.channel = `a2a_${createHash('sha256').update(tasksTable).digest('hex').slice(0, 16)}`;
    this.connection = database.dedicated(
      (client) => this.listen(client),
      () => {
        this.rounds = 0;
        this.proven = false;
      },
    );
  }

  /** Makes sure that the connection is there, answers and carries notifications; a dead or silent one is replaced. */
  async runOnce(): Promise<void> {
    if (this.closed || this.isPooled || this.rounds++ % ROUNDS_PER_PING !== 0) return;
    try {
      await this.connection.connect(this.timeoutMs);
      if (!this.proven) await this.prove();
    } catch (error) {
      this.rounds = 0;
      if (this.closed || !this.lostWarning.isDue()) return;
      this.logger.warn(`No wake-ups from other replicas for now, polling instead: ${messageOf(error)}`);
    }
  }

  /** Wakes the other replicas for a task, soon. */
  send(taskNo: number): void {
    if (this.closed || this.isPooled) return;
    if (performance.now() < this.pausedUntil) {
      this.unsent += 1;
      return;
    }
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

  private get isPooled(): boolean {
    return performance.now() < this.pooledUntil;
  }

  private async listen(client: Client): Promise<void> {
    client.on('notification', ({ payload }) => this.receive(payload ?? ''));
    await boundUnread(client);
    await client.query(`LISTEN ${this.channel}`);
    // Listening first, then catching up: what was committed in the gap woke nobody.
    this.listener(undefined);
  }

  private receive(payload: string): void {
    const [sender, numbers] = payload.split(':');
    if (sender === this.self) {
      if (numbers === '') this.heard?.();
      return;
    }
    if (!numbers) return;
    this.listener(numbers.split(',').map(Number));
  }

  /**
   * Sends a notification to itself. Through a pooler in transaction mode it does not arrive: the server's session that
   * listens is nobody's by then. It goes through the pool, since a session's own notification comes along with the answer
   * to the statement that sends it, and would arrive behind such a pooler too.
   */
  private async prove(): Promise<void> {
    let arrived = false;
    let bound: Bound | undefined;
    const waited = new Promise<void>((resolve) => {
      this.heard = () => {
        arrived = true;
        resolve();
      };
      bound = boundedBy(PROBE_MS, resolve);
    });
    try {
      const sent = this.database.query(`NOTIFY ${this.channel}, '${this.self}:'`, [], this.timeoutMs);
      // One that could not be sent says nothing of the way back: it is tried again at the next look.
      if (!(await sent.then(yes, no))) return;
      await waited;
      // A server that stands still is not blamed on a pooler: this fails then, and brings what was on its way.
      if (!arrived) await this.connection.connect(this.timeoutMs);
      if (arrived) this.proved();
      else await this.giveWay();
    } finally {
      bound?.clear();
      this.heard = undefined;
    }
  }

  private proved(): void {
    this.proven = true;
    this.pausedUntil = -Infinity;
    if (!this.warnedOfPooler) return;
    this.warnedOfPooler = false;
    this.logger.log('Wake-ups from other replicas get through now.');
  }

  private async giveWay(): Promise<void> {
    this.pooledUntil = performance.now() + POOLED_MS;
    this.rounds = 0;
    this.pending.clear();
    // The server's session outlives ours behind a pooler, and need not listen for nobody.
    await this.connection.query(`UNLISTEN ${this.channel}`, [], this.timeoutMs).catch(() => undefined);
    await this.connection.disconnect();
    if (this.warnedOfPooler) return;
    this.warnedOfPooler = true;
    this.logger.warn(
      'No wake-ups from other replicas: a notification that this replica sent to itself did not arrive, so the connection ' +
        'goes through a pooler that carries none (transaction mode). Other replicas’ events are found by polling ' +
        '(streams.pollIntervalMs). Set streams.notify: false, or connect directly or in session mode.',
    );
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const numbers = [...this.pending];
    this.pending = new Set();
    this.sending = this.transmit(numbers).finally(() => {
      this.sending = undefined;
      if (this.pending.size > 0 && !this.closed) this.timer = setTimeout(() => this.flush(), GATHER_MS);
    });
  }

  private async transmit(numbers: number[]): Promise<void> {
    let left = numbers.length;
    try {
      racePoint('notify.before');
      for (const { payload, count } of payloads(`${this.self}:`, numbers)) {
        await this.connection.query('SELECT pg_notify($1, $2)', [this.channel, payload], this.timeoutMs);
        left -= count;
      }
      this.pauseMs = 0;
      racePoint('notify.after');
    } catch (error) {
      this.notSent(left, error);
    }
  }

  private notSent(count: number, error: unknown): void {
    this.unsent += count + this.pending.size;
    this.pending.clear();
    this.pauseMs = Math.min(Math.max(this.pauseMs * 2, FIRST_PAUSE_MS), MAX_PAUSE_MS);
    this.pausedUntil = performance.now() + this.pauseMs;
    if (this.closed || !this.unsentWarning.isDue()) return;
    this.logger.warn(
      `${this.unsent} wake-ups for other replicas were not sent, and their polls find the events instead ` +
        `(streams.pollIntervalMs). Sending is tried again after a pause: ${messageOf(error)}`,
    );
    this.unsent = 0;
  }
}

/**
 * A process that stands still does not read, and once its socket is full the server's session waits for it inside of a
 * transaction, for as long as the process stands: that keeps VACUUM of the whole database from removing anything. So the
 * server ends a session whose client takes nothing for 11 s. Only where the server's session is ours alone: behind a
 * pooler, which does not know the server's process, the setting would stay for others.
 */
async function boundUnread(client: Client): Promise<void> {
  const { processID } = client as Client & { processID?: number | null };
  const set =
    "SELECT set_config('tcp_user_timeout', '11s', false), set_config('tcp_keepalives_idle', '5', false), " +
    "set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false) " +
    'WHERE pg_backend_pid() = $1::integer';
  // A server that does not know one of them serves all the same; a connection that broke says so at the next statement.
  await client.query(set, [processID ?? null]).catch(() => undefined);
}

/** Says yes at most once in so many ms. */
class Seldom {
  private last = -Infinity;

  constructor(private readonly everyMs: number) {}

  isDue(): boolean {
    const now = performance.now();
    if (now - this.last < this.everyMs) return false;
    this.last = now;
    return true;
  }
}

const yes = (): boolean => true;
const no = (): boolean => false;

interface Payload {
  payload: string;
  /** How many tasks it names. */
  count: number;
}

function payloads(head: string, numbers: number[]): Payload[] {
  const made: Payload[] = [];
  let current = '';
  let count = 0;
  for (const number of numbers) {
    if (head.length + current.length > MAX_PAYLOAD_BYTES) {
      made.push({ payload: head + current, count });
      current = '';
      count = 0;
    }
    current += current ? `,${number}` : String(number);
    count += 1;
  }
  if (current) made.push({ payload: head + current, count });
  return made;
}
