/** A piece of the built library, and what it is replaced by. The piece must be there exactly once. */
export interface Replacement {
  /** In the library's dist folder. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** A fault in the library, made on purpose, and the run that has to find it. */
export interface Mutation {
  readonly name: string;
  readonly replacements: readonly Replacement[];
  readonly profile: readonly string[];
  /** The promises of which at least one must be seen broken. */
  readonly breaks: readonly string[];
}

/** Commits that arrive after their lease was claimed, and before the next attempt has said anything, which waits long. */
const LATE_COMMITS = [
  '--seconds',
  '30',
  '--pace',
  '6',
  '--faults',
  'network-black-hole',
  '--replicas',
  '3',
  '--users',
  '6',
  '--backoff',
  '2500',
];

/** Whole replicas that die, whatever the fault is about. */
const DEATHS = ['--seconds', '8', '--pace', '3', '--faults', 'kill,freeze'];

/** Ending commits and renewals that are long under way, beside each other. */
const SLOW_NETWORK = ['--seconds', '15', '--pace', '5', '--faults', 'network-delay'];

/** What dies is the only replica of its agent, or nearly: replicas of another agent look on. */
const TWO_AGENTS = ['--seconds', '15', '--pace', '4', '--agents', '2', '--faults', 'kill'];

const COMMIT_STATEMENTS = 'postgres/tasks/commit-statements.js';
const GROUP_COMMIT = 'postgres/tasks/group-commit.js';
const TASK_STORE = 'postgres/tasks/typeorm-task-store.js';
const LEASE_STATEMENTS = 'postgres/leases/lease-statements.js';
const LEASE_STORE = 'postgres/leases/typeorm-lease-store.js';

export const MUTATIONS: readonly Mutation[] = [
  {
    name: 'drop the generation check in a commit',
    profile: LATE_COMMITS,
    breaks: ['I1', 'I3'],
    replacements: [
      {
        file: COMMIT_STATEMENTS,
        from: 'WHERE generation = t.generation AND task_no = t.task_no',
        to: 'WHERE task_no = t.task_no',
      },
      {
        file: COMMIT_STATEMENTS,
        from: 'WHERE generation = $generation AND task_no = (SELECT task_no FROM t)',
        to: 'WHERE $generation::bigint > 0 AND task_no = (SELECT task_no FROM t)',
      },
      {
        file: COMMIT_STATEMENTS,
        from: '(NOT $fenced::boolean OR generation = $generation)',
        to: '(NOT $fenced::boolean OR $generation::bigint > 0)',
      },
    ],
  },
  {
    name: 'release before save',
    profile: DEATHS,
    breaks: ['I2', 'I3'],
    replacements: [
      {
        file: GROUP_COMMIT,
        from: 'const groups = commit.row.generation !== undefined && isSmall(commit);',
        to: 'const groups = false;',
      },
      {
        file: GROUP_COMMIT,
        from: 'const [row] = await statement.run(on, laterCommitParams(commit), { timeoutMs });',
        to: `const { generation, ends } = commit.row;
        const releases = generation !== undefined && ends;
        if (releases) await on.query('DELETE FROM a2a_task_leases WHERE generation = $1', [generation]);
        const saved = releases ? { ...commit, row: { ...commit.row, generation: undefined } } : commit;
        const [row] = await statement.run(on, laterCommitParams(saved), { timeoutMs });`,
      },
    ],
  },
  {
    name: 'renew as an upsert',
    profile: SLOW_NETWORK,
    breaks: ['I1', 'I2', 'I3'],
    replacements: [
      {
        file: LEASE_STORE,
        from: 'let [row] = await this.sql.renew.run(this.database, { holder, ttlMs }, renewal());',
        to: `let [row] = await this.sql.renew.run(this.database, { holder, ttlMs }, renewal(timeoutMs));
        const ask = (text, params, ms) => this.database.query(text, params, ms, 'renewal');
        this.known ??= new Map();
        const look = 'SELECT generation, to_json(l) AS row FROM a2a_task_leases AS l WHERE generation = ANY($1::bigint[])';
        for (const { generation, row } of await ask(look, [generations], leftMs()))
            this.known.set(Number(generation), { ...row, holder });
        const wanted = generations.flatMap((generation) => this.known.get(generation) ?? []);
        await ask(\`
          INSERT INTO a2a_task_leases OVERRIDING SYSTEM VALUE
          SELECT * FROM json_populate_recordset(NULL::a2a_task_leases, $1::json)
          ON CONFLICT (task_no) DO UPDATE
             SET holder = EXCLUDED.holder, renewed_at = clock_timestamp(),
                 expires_at = clock_timestamp() + $2::double precision * interval '1 millisecond'\`,
            [JSON.stringify(wanted), ttlMs], leftMs());`,
      },
    ],
  },
  {
    name: 'sweeper without scope',
    profile: TWO_AGENTS,
    breaks: ['I2', 'I6'],
    replacements: [
      {
        file: LEASE_STATEMENTS,
        from: '${l}.agent = $agent AND',
        to: '$agent::text IS NOT NULL AND',
      },
    ],
  },
  {
    // With either of the two in its place the other one refuses: an ended task gets neither a turn nor an event.
    name: 'terminal guard off',
    profile: DEATHS,
    breaks: ['I2', 'I4'],
    replacements: [
      {
        file: COMMIT_STATEMENTS,
        from: 'AND state NOT IN ${TERMINAL_LIST}\n       FOR UPDATE\n',
        to: 'FOR UPDATE\n',
      },
      {
        file: COMMIT_STATEMENTS,
        from: 'AND state NOT IN ${TERMINAL_LIST}\n         FOR UPDATE SKIP',
        to: 'FOR UPDATE SKIP',
      },
      {
        file: TASK_STORE,
        from: "if (isTerminal(stateOfRow(row)))\n                return { outcome: 'terminal', stored: storedTask(row) };",
        to: '',
      },
    ],
  },
];
