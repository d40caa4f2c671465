import { randomUUID } from 'node:crypto';
import { pruneEffectsStatement } from '../../libs/a2a-cluster/src/postgres/effects/effect-statements.js';
import { claimStatement } from '../../libs/a2a-cluster/src/postgres/leases/lease-statements.js';
import type { Statement } from '../../libs/a2a-cluster/src/postgres/connection/statement.js';
import {
  firstCommitParams,
  type FirstCommitRow,
  firstCommitsStatement,
  laterCommitParams,
  type LaterCommitRow,
  laterCommitsParams,
  laterCommitsStatement,
  laterCommitStatement,
} from '../../libs/a2a-cluster/src/postgres/tasks/commit-statements.js';
import { countStatement, listStatement } from '../../libs/a2a-cluster/src/postgres/tasks/list-statements.js';
import {
  pruneEventsStatement,
  pruneTasksStatement,
} from '../../libs/a2a-cluster/src/postgres/tasks/prune-statements.js';
import {
  findByNoStatement,
  findByNoUpToStatement,
  findStatement,
  findUpToStatement,
  lockStatement,
  overdueStatement,
  readEventsStatement,
  withoutLeaseStatement,
} from '../../libs/a2a-cluster/src/postgres/tasks/task-statements.js';
import { useCluster } from './cluster.fixture.js';

const TASKS = 20_000;
const OWNERS = 20;
const HOUR_MS = 3_600_000;
const FEW = ['a2a_task_leases', 'a2a_replicas', 'a2a_push_configs'];

interface PlanNode {
  'Node Type': string;
  'Relation Name'?: string;
  'Shared Hit Blocks'?: number;
  'Shared Read Blocks'?: number;
  Plans?: PlanNode[];
}

const nodesOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

/** The tables that a plan reads from end to end. */
const scannedBy = (plan: PlanNode): string[] =>
  nodesOf(plan)
    .filter((node) => node['Node Type'] === 'Seq Scan')
    .map((node) => node['Relation Name'] ?? '');

/** A statement as PostgreSQL gets it, and its parameters. */
type Asked = [sql: string, params: unknown[]];

const asked = <P extends object>(statement: Statement<P>, params: P): Asked => [
  statement.text,
  statement.values(params),
];

/** A parameter in the text of an EXECUTE. */
function literalOf(param: unknown): string {
  if (param === null) return 'NULL';
  if (!Array.isArray(param)) return `'${param as string}'`;
  return `'{${param.map((item) => (item === null || item === undefined ? 'NULL' : `"${String(item)}"`)).join()}}'`;
}

const FIRST_COMMIT: FirstCommitRow = {
  tenant: '',
  owner: 'o7',
  task_id: 't7',
  context_id: 'c7',
  state: 'TASK_STATE_WORKING',
  state_version: 1,
  snapshot: '{}',
  head: '{}',
  count: 1,
  commit_id: randomUUID(),
  message_id: 'm7',
  fingerprint: 'hash',
  kind: 'message',
  turn_id: randomUUID(),
  holder: 'h',
  ttl: 60_000,
  request: '{}',
  context: '{}',
  config_id: undefined,
  config: undefined,
  wire_version: undefined,
};

const LATER_COMMIT: LaterCommitRow = {
  task_no: 7,
  version: 1,
  generation: 7,
  ends: true,
  count: 1,
  commit_id: randomUUID(),
  state: 'TASK_STATE_COMPLETED',
  state_version: 2,
  snapshot: '{}',
  head: '{}',
};

describe('Plans of statements over many tasks', () => {
  const cluster = useCluster();

  const explain = async (sql: string, params: unknown[], options = ''): Promise<PlanNode> => {
    const [row] = await cluster.db.query<{ 'QUERY PLAN': { Plan: PlanNode }[] }>(
      `EXPLAIN (FORMAT JSON${options}) ${sql}`,
      params,
    );
    return row!['QUERY PLAN'][0]!.Plan;
  };

  /** The tables that a statement reads from end to end. */
  const scanned = async (sql: string, params: unknown[]): Promise<string[]> => scannedBy(await explain(sql, params));

  /** How many pages a statement touches. It is carried out. */
  const pages = async (sql: string, params: unknown[]): Promise<number> => {
    const plan = await explain(sql, params, ', ANALYZE, BUFFERS');
    return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
  };

  /** Tasks of many owners: one in a hundred works under a lease, one in a hundred waits, the others have ended. */
  const fill = async (): Promise<void> => {
    await cluster.db.query(
      `INSERT INTO a2a_tasks (tenant, owner, task_id, agent, context_id, state, state_since, state_version, version,
                              snapshot, snapshot_version)
       SELECT '', 'o' || n % ${OWNERS}, 't' || n, 'default', 'c' || n % 2000,
              CASE n % 100 WHEN 0 THEN 'TASK_STATE_WORKING' WHEN 1 THEN 'TASK_STATE_INPUT_REQUIRED'
                           ELSE 'TASK_STATE_COMPLETED' END,
              clock_timestamp() - n * interval '1 second', 2, 2, '{}', 2
         FROM generate_series(1, ${TASKS}) AS n`,
    );
    await cluster.db.query(
      `INSERT INTO a2a_task_events (task_no, version, event, commit_id, created_at)
       SELECT t.task_no, v, '{}', gen_random_uuid(), t.state_since FROM a2a_tasks AS t, generate_series(1, 2) AS v`,
    );
    await cluster.db.query(
      `INSERT INTO a2a_task_effects (task_no, turn_id, key, state, replay, attempt, generation, dispatched_at)
       SELECT task_no, gen_random_uuid(), 'k', 'succeeded', 'never', 1, 1, state_since FROM a2a_tasks`,
    );
    await cluster.db.query(
      `INSERT INTO a2a_task_leases (task_no, agent, kind, turn_id, admitted_version, holder, attempt, expires_at, context)
       SELECT task_no, 'default', 'message', gen_random_uuid(), 0, 'h', 1, clock_timestamp() + interval '1 hour', '{}'
         FROM a2a_tasks WHERE state = 'TASK_STATE_WORKING'`,
    );
    await cluster.db.query('VACUUM (ANALYZE) a2a_tasks, a2a_task_events, a2a_task_effects, a2a_task_leases');
  };

  it('reach tasks, events and effects by an index, whatever they are looked up by', async () => {
    const { tables } = await cluster.replica();
    await fill();
    const task = { tenant: '', owner: 'o7', taskId: 't7', agent: 'default' };
    const filter = {
      tenant: '',
      owner: 'o7',
      agent: 'default',
      contextId: undefined,
      state: undefined,
      statusAfter: undefined,
    };
    const page = {
      cursorUs: undefined,
      cursorTaskNo: undefined,
      limit: 51,
      bytesAtOnce: 262_144,
      pageBytes: 2_097_152,
      byHead: false,
    };
    const later = { cursorUs: String((Date.now() - HOUR_MS) * 1_000), cursorTaskNo: '77' };
    const list = (what: object) => asked(listStatement(tables), { ...filter, ...page, ...what });
    const claim = {
      agent: 'default',
      holder: 'h',
      ttlMs: 1_000,
      limit: 100,
      withRequest: true,
      tenant: undefined,
      owner: undefined,
      taskId: undefined,
      endingAfterAttempts: undefined,
    };
    const prune = { olderThanMs: 2 * HOUR_MS, limit: 10 };
    const statements: [string, Asked][] = [
      ['GetTask', asked(findStatement(tables), task)],
      ['by number', asked(findByNoStatement(tables), { taskNo: 7 })],
      ['up to a size', asked(findUpToStatement(tables), { ...task, maxBytes: 1_000 })],
      ['by number up to a size', asked(findByNoUpToStatement(tables), { taskNo: 7, maxBytes: 1_000 })],
      ['ListTasks', list({})],
      ['ListTasks, a later page', list(later)],
      ['ListTasks by context', list({ contextId: 'c7' })],
      ['ListTasks by state', list({ state: 'TASK_STATE_WORKING' })],
      ['ListTasks by time', list({ statusAfter: '2026-01-01T00:00:00Z' })],
      ['its total', asked(countStatement(tables), { ...filter, contextId: 'c7' })],
      ['a page of the log', asked(readEventsStatement(tables), { taskNo: 7, after: 0, limit: 500, bytes: 1_000_000 })],
      [
        'tasks that wait too long',
        asked(overdueStatement(tables), { agent: 'default', waitingForMs: HOUR_MS, limit: 100, afterTaskNo: 0 }),
      ],
      [
        'running tasks without a lease',
        asked(withoutLeaseStatement(tables), { agent: 'default', unchangedForMs: HOUR_MS, limit: 100 }),
      ],
      ['a sweep', asked(claimStatement(tables), claim)],
      ['one lease', asked(claimStatement(tables), { ...claim, ...task, limit: 1 })],
      ['events to prune', asked(pruneEventsStatement(tables), prune)],
      ['effects to prune', asked(pruneEffectsStatement(tables), prune)],
      ['tasks to prune', asked(pruneTasksStatement(tables), { ...prune, agent: 'default' })],
    ];
    const found: [string, string[]][] = [];
    for (const [what, [sql, params]] of statements) {
      const tablesRead = await scanned(sql, params);
      // Running turns, replicas and receivers are few, so that reading all of them costs less than an index.
      found.push([what, tablesRead.filter((table) => !FEW.includes(table))]);
    }
    expect(found).toEqual(statements.map(([what]) => [what, []]));
    // The check would see one: nothing indexes when a task was made.
    expect(await scanned('SELECT FROM a2a_tasks WHERE created_at < $1', ['2026-01-01'])).toEqual(['a2a_tasks']);
  });

  it('find one task among all of its owner by its id, whatever is known of the tables', async () => {
    const { tables } = await cluster.replica();
    await cluster.db.query('ALTER TABLE a2a_tasks SET (autovacuum_enabled = false)');
    // Of indexes that cost the same the planner takes the one made last, which after a restore may be any.
    await cluster.db.query('CREATE INDEX made_last ON a2a_tasks (tenant, owner, agent)');
    await cluster.db.query(
      `INSERT INTO a2a_tasks (tenant, owner, task_id, agent, context_id, state, state_since, state_version, version,
                              snapshot, snapshot_version)
       SELECT '', 'o7', 't' || n, 'default', 'c7', 'TASK_STATE_WORKING', clock_timestamp(), 1, 1, '{}', 1
         FROM generate_series(1, 5000) AS n`,
    );
    const task = { tenant: '', owner: 'o7', taskId: 't7', agent: 'default' };
    const claim = { holder: 'h', ttlMs: 1_000, limit: 1, endingAfterAttempts: undefined, withRequest: true };
    const taken = { row: { ...FIRST_COMMIT, owner: 'o7', task_id: 't7' }, events: ['{}'] };
    const statements: [string, Asked][] = [
      ['a look', asked(findStatement(tables), task)],
      ['its lock', asked(lockStatement(tables), task)],
      ['its claim', asked(claimStatement(tables), { ...claim, ...task })],
      ['a look at its size', asked(findUpToStatement(tables), { ...task, maxBytes: 1_000 })],
      [
        'one that is there',
        asked(firstCommitsStatement(tables), firstCommitParams([taken], { agent: 'default', windowMs: 1_000 })),
      ],
    ];
    const touched: [string, number][] = [];
    for (const [what, [sql, params]] of statements) touched.push([what, await pages(sql, params)]);
    await cluster.db.query('DROP INDEX made_last');
    await cluster.db.query('TRUNCATE a2a_tasks');
    await cluster.db.query('ALTER TABLE a2a_tasks RESET (autovacuum_enabled)');
    expect(touched.filter(([, count]) => count > 20)).toEqual([]);
  });

  it('store several commits at once by indexes, even where they are planned while the tables are empty', async () => {
    const { tables } = await cluster.replica();
    const [first, later] = [
      { row: FIRST_COMMIT, events: ['{}'] },
      { row: LATER_COMMIT, events: ['{}'] },
    ];
    const statements: [string, Asked][] = [
      [
        'first commits',
        asked(firstCommitsStatement(tables), firstCommitParams([first], { agent: 'default', windowMs: 60_000 })),
      ],
      ['later commits', asked(laterCommitsStatement(tables), laterCommitsParams([later], 100))],
      ['a later commit', asked(laterCommitStatement(tables, false), laterCommitParams(later))],
      ['the last commit', asked(laterCommitStatement(tables, true), laterCommitParams(later))],
    ];
    // As after a migration: nothing is known of them.
    await cluster.db.query('TRUNCATE a2a_tasks, a2a_task_leases, a2a_task_events, a2a_message_receipts');
    const client = await cluster.db.connect();
    await client.query('SET plan_cache_mode = force_generic_plan');
    const found: [string, string[]][] = [];
    for (const [at, [what, [text, params]]] of statements.entries()) {
      await client.query(`PREPARE p${at} AS ${text}`);
      const { rows } = await client.query<{ 'QUERY PLAN': { Plan: PlanNode }[] }>(
        `EXPLAIN (FORMAT JSON) EXECUTE p${at}(${params.map(literalOf).join(', ')})`,
      );
      found.push([what, scannedBy(rows[0]!['QUERY PLAN'][0]!.Plan)]);
    }
    await client.end();
    expect(found).toEqual(statements.map(([what]) => [what, []]));
  });

  it('B.18 look for running tasks without a lease at the cost of those that run, not of all that ended', async () => {
    const { tables } = await cluster.replica();
    await fill();
    const [sql, params] = asked(withoutLeaseStatement(tables), { agent: 'default', unchangedForMs: 0, limit: 1_000 });
    const touched = await pages(sql, params);
    // Each of them in a page of its own, the index, and the leases.
    expect(touched).toBeLessThan(TASKS / 100 + 50);
    await cluster.db.query('TRUNCATE a2a_tasks, a2a_task_events, a2a_task_effects, a2a_task_leases');
  });

  it('prune at the same cost however much was pruned before', async () => {
    const { tables, tasks, effects } = await cluster.replica();
    const old = { olderThanMs: HOUR_MS, limit: 100 };
    const jobs: [(limit: number) => Promise<number>, Asked][] = [
      [(limit) => tasks.pruneEvents(HOUR_MS, limit), asked(pruneEventsStatement(tables), old)],
      [(limit) => effects.prune(HOUR_MS, limit), asked(pruneEffectsStatement(tables), old)],
      [(limit) => tasks.pruneTasks(HOUR_MS, limit), asked(pruneTasksStatement(tables), { ...old, agent: 'default' })],
    ];
    for (const [prune, [sql, params]] of jobs) {
      await fill();
      const before = await pages(sql, params);
      let pruned = 0;
      for (let batch = 1; batch > 0; pruned += batch) batch = await prune(5_000);
      expect(pruned).toBeGreaterThan(0.75 * TASKS);
      await cluster.db.query('VACUUM a2a_tasks, a2a_task_events, a2a_task_effects'); // as autovacuum does
      expect(await pages(sql, params)).toBeLessThanOrEqual(before);
      await cluster.db.query('TRUNCATE a2a_tasks, a2a_task_events, a2a_task_effects, a2a_task_leases');
    }
  });
});
