import { Client } from 'pg';

/** How far a task's log has got. */
export interface LogPosition {
  readonly version: number;
  readonly events: number;
}

const POSITION = `
  SELECT t.version::int AS version, count(e.version)::int AS events
  FROM a2a_tasks t LEFT JOIN a2a_task_events e ON e.task_no = t.task_no
  WHERE t.task_id = $1 GROUP BY t.version`;

const TERMINAL_EVENTS = `
  SELECT count(*)::int AS count
  FROM a2a_task_events e JOIN a2a_tasks t ON t.task_no = e.task_no
  WHERE t.task_id = $1 AND e.event::text ~ '"state": *"TASK_STATE_(COMPLETED|FAILED|CANCELED|REJECTED)"'`;

const LEASES = 'SELECT count(*)::int AS count FROM a2a_task_leases';

/** Transactions that have written to the ledger and stand between two statements. */
const OPEN_TRANSFERS = `
  SELECT count(*)::int AS count FROM pg_stat_activity
  WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE '%ledger.entries%'`;

/** Looks into the tables themselves, past everything a replica might say of them. */
export class EventLog {
  private constructor(private readonly client: Client) {}

  static async open(databaseUrl: string): Promise<EventLog> {
    const client = new Client({ connectionString: databaseUrl });
    // The connection breaks when the demo is interrupted; the query that waits then says so.
    client.on('error', () => undefined);
    await client.connect();
    return new EventLog(client);
  }

  async position(taskId: string): Promise<LogPosition> {
    const { rows } = await this.client.query<LogPosition>(POSITION, [taskId]);
    return rows[0] ?? { version: 0, events: 0 };
  }

  async terminalEvents(taskId: string): Promise<number> {
    return this.count(TERMINAL_EVENTS, [taskId]);
  }

  /** Of all tasks: every lease is a turn that runs. */
  async leases(): Promise<number> {
    return this.count(LEASES, []);
  }

  async openTransfers(): Promise<number> {
    return this.count(OPEN_TRANSFERS, []);
  }

  async close(): Promise<void> {
    await this.client.end();
  }

  private async count(sql: string, parameters: string[]): Promise<number> {
    const { rows } = await this.client.query<{ count: number }>(sql, parameters);
    return rows[0]?.count ?? 0;
  }
}
