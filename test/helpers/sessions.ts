import { statementName } from '../../libs/a2a-cluster/src/postgres/connection/prepared-statements.js';
import { laterCommitStatement } from '../../libs/a2a-cluster/src/postgres/tasks/commit-statements.js';
import { decideStatement, lockStatement } from '../../libs/a2a-cluster/src/postgres/tasks/task-statements.js';
import { onCleanUp } from './clean-up.js';
import { backendsOf } from './cluster.js';
import { TEST_APPLICATION_NAME, type TestDatabase } from './database.js';
import { eventually } from '../../tools/harness/wait.js';

const TABLES = {
  tasks: '"a2a_tasks"',
  events: '"a2a_task_events"',
  leases: '"a2a_task_leases"',
  replicas: '"a2a_replicas"',
  pushConfigs: '"a2a_push_configs"',
  receipts: '"a2a_message_receipts"',
  effects: '"a2a_task_effects"',
};

const APPENDS = [laterCommitStatement(TABLES, false).text, laterCommitStatement(TABLES, true).text] as const;

/** Statements of the library as a replica sends them, or what they begin with. */
export const STATEMENTS = {
  /** A commit of events, whether or not it ends its turn. */
  append: commonStart(...APPENDS),
};

/** What is on a connection whenever one of them is sent: the name of one that is prepared, whose text goes along once. */
export const SENT = {
  /** The first of an admission: it takes the lock on the task. */
  admission: statementName(lockStatement(TABLES).text),
  /** What it decides from, under that lock. */
  decision: statementName(decideStatement(TABLES).text),
  append: APPENDS.map(statementName),
};

/** What the connection that listens for wake-ups may have sent last. */
export const LISTENING = ['LISTEN a2a_', 'SELECT pg_notify(', 'SELECT 1'];

/** `pg_stat_activity` cuts statements off at 1 kB. */
const SHOWN_CHARS = 1_000;

/** Rows that the test has locked in a transaction of its own. */
export interface RowLock {
  /** Lets them go; once more does nothing. */
  release(): Promise<void>;
}

/** Locks the row of a task: no commit, admission or cancel of it gets through, and each waits where it is. */
export async function lockTask(database: TestDatabase, taskId: string): Promise<RowLock> {
  const session = await database.connect();
  const end = () => session.end();
  const forget = onCleanUp(end);
  await session.query('BEGIN');
  const { rowCount } = await session.query('SELECT 1 FROM a2a_tasks WHERE task_id = $1 FOR UPDATE', [taskId]);
  if (rowCount !== 1) throw new Error(`There is no task ${taskId}`);
  let released: Promise<void> | undefined;
  return {
    release() {
      forget();
      return (released ??= session.query('ROLLBACK').then(end));
    },
  };
}

/** Which backends are meant: by how their last statement begins, and by whose they are. */
export interface BackendFilter {
  statements: readonly string[];
  /** Name of a replica of the cluster. Default: any but the test itself. */
  replica?: string;
  /** Only those that wait for a lock. */
  blocked?: boolean;
}

/** Process ids of these backends. */
export async function backends(
  database: TestDatabase,
  { statements, replica, blocked = false }: BackendFilter,
): Promise<number[]> {
  const rows = await database.query<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity
      WHERE datname = $1 AND EXISTS (SELECT FROM unnest($2::text[]) AS s WHERE starts_with(query, s))
        AND CASE WHEN $3::text IS NULL THEN application_name <> $4 ELSE application_name = $3 END
        AND (wait_event_type = 'Lock' OR NOT $5)`,
    [
      database.name,
      statements.map((statement) => statement.slice(0, SHOWN_CHARS)),
      replica === undefined ? null : backendsOf(replica),
      TEST_APPLICATION_NAME,
      blocked,
    ],
  );
  return rows.map(({ pid }) => pid);
}

/** Waits until a statement, of this replica or of any, waits for a lock, and returns the process id of its backend. */
export function blockedBackend(database: TestDatabase, statement: string, replica?: string): Promise<number> {
  return eventually(
    async () =>
      (
        await backends(database, { statements: [statement], blocked: true, ...(replica !== undefined && { replica }) })
      )[0] ?? 0,
    { timeoutMs: 15_000 },
  );
}

/** Ends these connections, as an administrator or a failover would. Returns how many there were. */
export async function terminateBackends(database: TestDatabase, filter: BackendFilter): Promise<number> {
  const pids = await backends(database, filter);
  await database.query('SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid', [pids]);
  return pids.length;
}

function commonStart(one: string, other: string): string {
  const at = [...one].findIndex((char, index) => char !== other[index]);
  return at < 0 ? one : one.slice(0, at);
}
