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
  ...['--seconds', '30', '--pace', '6', '--faults', 'network-black-hole'],
  ...['--replicas', '3', '--users', '6', '--backoff', '2500'],
];

/** Whole replicas that die, whatever the fault is about. */
const DEATHS = ['--seconds', '8', '--pace', '3', '--faults', 'kill,freeze'];

/** Ending commits and renewals that are long under way, beside each other. */
const SLOW_NETWORK = ['--seconds', '15', '--pace', '5', '--faults', 'network-delay'];

/** What dies is the only replica of its agent, or nearly: replicas of another agent look on. */
const TWO_AGENTS = ['--seconds', '15', '--pace', '4', '--agents', '2', '--faults', 'kill'];

const STATEMENTS = 'postgres/tasks/task-statements.js';
const GROUP_STATEMENTS = 'postgres/tasks/group-statements.js';
const GROUP_COMMIT = 'postgres/tasks/group-commit.js';
const TASK_COMMITS = 'postgres/tasks/task-commits.js';
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
        file: STATEMENTS,
        from: 'fenced ? `generation = $10 AND ${ofTask}`',
        to: 'fenced ? `$10::bigint > 0 AND ${ofTask}`',
      },
      {
        file: GROUP_STATEMENTS,
        from: 'WHERE generation = t.generation AND task_no = t.task_no',
        to: 'WHERE task_no = t.task_no',
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
        from: 'const groups = commit.options.generation !== undefined && isSmall(commit);',
        to: 'const groups = false;',
      },
      {
        file: TASK_COMMITS,
        from: 'const fenced = generation !== undefined;\n        const statement = this.prepared.append',
        to:
          'const fenced = generation !== undefined && !endsTurn;\n' +
          '        if (generation !== undefined && endsTurn)\n' +
          "            await executor.query('DELETE FROM a2a_task_leases WHERE generation = $1', [generation]);\n" +
          '        const statement = this.prepared.append',
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
        from: 'let [row] = await ask(this.renewSql, [holder, ttlMs], leftMs());',
        to: `let [row] = await ask(this.renewSql, [holder, ttlMs], timeoutMs);
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
        from: '${l}.agent = $1 AND',
        to: '$1::text IS NOT NULL AND',
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
        file: STATEMENTS,
        from: 'AND state NOT IN ${TERMINAL_LIST}\n       FOR UPDATE\n  ), ${leaseOfCommit(',
        to: 'FOR UPDATE\n  ), ${leaseOfCommit(',
      },
      {
        file: GROUP_STATEMENTS,
        from: 'AND state NOT IN ${TERMINAL_LIST}',
        to: '',
      },
      {
        file: TASK_STORE,
        from: "if (isTerminal(stateOfRow(row)))\n                return { outcome: 'terminal', stored: storedTask(row) };",
        to: '',
      },
    ],
  },
];
