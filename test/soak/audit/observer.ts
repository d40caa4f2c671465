import type pg from 'pg';
import { connect, inSession } from '../cluster/database-session.js';
import type { Dump } from '../dump.js';
import { now, type Recorder } from '../recorder.js';
import * as sql from './audit.statements.js';

/** How often the database is asked whether it is there, and how late an answer is worth a line, in ms. */
const PROBE_MS = 100;
const LATE_MS = 100;

/** How much is still going on. */
export interface Unquiet {
  readonly leases: number;
  readonly running: number;
  readonly behind: number;
}

/** The run's own eyes in the database: past the replicas, past the library, past every proxy. */
export class Observer {
  private timer: NodeJS.Timeout | undefined;
  private probing: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(
    private readonly url: string,
    private readonly recorder: Recorder,
  ) {}

  /** Once the tables are there, and before any client comes. */
  async install(): Promise<void> {
    await inSession(this.url, async (client) => {
      for (const statement of sql.AUDIT_STATEMENTS) await client.query(statement);
    });
  }

  /** Records from now on when the database cannot be reached, and when this process was not scheduled. */
  watch(): void {
    let client: pg.Client | undefined;
    let answeredAt = now();
    const probe = async (): Promise<void> => {
      try {
        client ??= await connect(this.url);
        await client.query('SELECT 1');
      } catch {
        client?.end().catch(() => undefined);
        client = undefined;
        return;
      }
      const at = now();
      if (at - answeredAt > PROBE_MS + LATE_MS) this.recorder.write({ kind: 'outage', from: answeredAt, to: at });
      answeredAt = at;
    };
    let last = now();
    const round = (): void => {
      const at = now();
      if (at - last > PROBE_MS + LATE_MS)
        this.recorder.write({ kind: 'lag', who: 'run', from: last + PROBE_MS, to: at });
      last = at;
      this.timer = setTimeout(round, PROBE_MS);
    };
    const loop = async (): Promise<void> => {
      while (!this.stopped) {
        await probe();
        await new Promise((resolve) => setTimeout(resolve, PROBE_MS));
      }
      await client?.end().catch(() => undefined);
    };
    round();
    this.probing = loop();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.probing;
  }

  async unquiet(): Promise<Unquiet> {
    const { rows } = await inSession(this.url, (client) => client.query<Unquiet>(sql.UNQUIET));
    return rows[0] ?? { leases: 0, running: 0, behind: 0 };
  }

  /** All of it, as it stands at one moment. */
  dump(): Promise<Dump> {
    return inSession(this.url, async (client) => {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      const read = async <R extends object>(text: string): Promise<R[]> => (await client.query<R>(text)).rows;
      return {
        tasks: await read(sql.TASKS),
        events: await read(sql.EVENTS),
        leases: await read(sql.LEASES),
        effects: await read(sql.EFFECTS),
        pushConfigs: await read(sql.PUSH_CONFIGS),
        dispatches: await read(sql.DISPATCHES),
        entries: await read(sql.ENTRIES),
        audit: await read(sql.AUDIT),
      };
    });
  }
}
