import { Batcher } from '../connection/batcher.js';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import type { SqlExecutor } from '../connection/statement.js';
import {
  type CommitOf,
  firstCommitParams,
  type FirstCommitRow,
  firstCommitsStatement,
  laterCommitParams,
  type LaterCommitRow,
  laterCommitsParams,
  laterCommitsStatement,
  laterCommitStatement,
  type MadeTask,
} from './commit-statements.js';
import type { TaskTables } from './task-statements.js';

/** A new task's first commit, and the window of its receipt in ms. */
export interface FirstCommit extends CommitOf<FirstCommitRow> {
  windowMs: number;
}

export type LaterCommit = CommitOf<LaterCommitRow>;

/**
 * Two are enough to keep the database busy while the next ones gather; more of them gain nothing for a larger group.
 */
const LIMITS = { atOnce: 2, maxItems: 16 };

/** A commit of more characters goes alone: it would hold up the others. */
const MAX_CHARS = 32 * 1024;

/** How long a group stands before a lock that others hold, in ms: then its commits go alone, and one of them waits. */
const LOCK_TIMEOUT_MS = 100;

/**
 * Group commit: the commits of several turns in one statement, where more of them come than go. Each of them is fenced as
 * it is alone, and alone goes what a group cannot take or leaves out. Undefined is answered where nothing was stored.
 */
export class GroupCommit {
  private readonly creates: Batcher<FirstCommit, MadeTask | undefined>;
  private readonly appends: Batcher<LaterCommit, number | undefined>;
  private readonly firstCommits: ReturnType<typeof firstCommitsStatement>;
  private readonly laterCommit: ReturnType<typeof laterCommitStatement>;
  private readonly lastCommit: ReturnType<typeof laterCommitStatement>;
  private readonly laterCommits: ReturnType<typeof laterCommitsStatement>;

  constructor(
    private readonly database: ClusterDatabase,
    tables: TaskTables,
    private readonly agent: string,
  ) {
    this.firstCommits = database.prepared(firstCommitsStatement(tables));
    this.laterCommit = database.prepared(laterCommitStatement(tables, false));
    this.lastCommit = database.prepared(laterCommitStatement(tables, true));
    this.laterCommits = database.prepared(laterCommitsStatement(tables));
    this.creates = new Batcher<FirstCommit, MadeTask | undefined>(
      {
        alone: (commit, timeoutMs) => this.createAlone(commit, timeoutMs),
        together: (commits, timeoutMs) => this.createTogether(commits, timeoutMs),
      },
      LIMITS,
    );
    this.appends = new Batcher<LaterCommit, number | undefined>(
      {
        alone: (commit, timeoutMs) => this.appendAlone(this.database, commit, timeoutMs),
        together: (commits, timeoutMs) => this.appendTogether(commits, timeoutMs),
      },
      LIMITS,
    );
  }

  /** The common kind in a group; one without a receipt or with a push receiver alone. */
  create(commit: FirstCommit, timeoutMs: number | undefined): Promise<MadeTask | undefined> {
    const { message_id, config_id, request } = commit.row;
    const groups = message_id !== undefined && config_id === undefined && isSmall(commit, request);
    const boundMs = this.bounded(timeoutMs);
    return groups ? this.creates.ask(commit, boundMs) : this.createAlone(commit, boundMs);
  }

  /** One under a lease in a group. */
  append(commit: LaterCommit, timeoutMs: number | undefined): Promise<number | undefined> {
    const groups = commit.row.generation !== undefined && isSmall(commit);
    const boundMs = this.bounded(timeoutMs);
    return groups ? this.appends.ask(commit, boundMs) : this.appendAlone(this.database, commit, boundMs);
  }

  /** As one step of a transaction. */
  appendWithin(tx: SqlExecutor, commit: LaterCommit): Promise<number | undefined> {
    return this.appendAlone(tx, commit);
  }

  private async createAlone(commit: FirstCommit, timeoutMs: number): Promise<MadeTask | undefined> {
    const { agent, database } = this;
    const params = firstCommitParams([commit], { agent, windowMs: commit.windowMs });
    const [made] = await this.firstCommits.run(database, params, { timeoutMs });
    return made;
  }

  private async createTogether(
    commits: readonly FirstCommit[],
    timeoutMs: number,
  ): Promise<ReadonlyMap<number, MadeTask>> {
    const windowMs = commits[0]?.windowMs ?? 0;
    // One statement has one window, and takes over no receipt twice.
    const places = firstOfEach(commits, ({ row, windowMs: its }) => {
      if (its !== windowMs) return undefined;
      return JSON.stringify([row.tenant, row.owner, row.message_id, row.fingerprint]);
    });
    const params = firstCommitParams(
      places.map((at) => commits[at]!),
      { agent: this.agent, windowMs, lockTimeoutMs: LOCK_TIMEOUT_MS },
    );
    const made = await this.firstCommits.run(this.database, params, { timeoutMs });
    return new Map(made.map((task) => [places[task.at - 1]!, task]));
  }

  private async appendAlone(
    on: SqlExecutor,
    commit: LaterCommit,
    timeoutMs = this.database.maxTimeoutMs,
  ): Promise<number | undefined> {
    const statement = commit.row.ends ? this.lastCommit : this.laterCommit;
    const [row] = await statement.run(on, laterCommitParams(commit), { timeoutMs });
    return row?.version;
  }

  private async appendTogether(
    commits: readonly LaterCommit[],
    timeoutMs: number,
  ): Promise<ReadonlyMap<number, number>> {
    // One statement changes no row twice: of two commits of one task it would do parts of both.
    const places = firstOfEach(commits, ({ row }) => row.task_no);
    const params = laterCommitsParams(
      places.map((at) => commits[at]!),
      LOCK_TIMEOUT_MS,
    );
    const rows = await this.laterCommits.run(this.database, params, { timeoutMs });
    return new Map(rows.map(({ at, version }) => [places[at - 1]!, version]));
  }

  private bounded(timeoutMs = Infinity): number {
    return Math.min(timeoutMs, this.database.maxTimeoutMs);
  }
}

/** The places of the first commit with each key; those without a key have none. */
function firstOfEach<T>(commits: readonly T[], keyOf: (commit: T) => unknown): number[] {
  const keys = new Set<unknown>([undefined]);
  return commits.flatMap((commit, at) => {
    const key = keyOf(commit);
    if (keys.has(key)) return [];
    keys.add(key);
    return [at];
  });
}

function isSmall({ events, row }: CommitOf<FirstCommitRow | LaterCommitRow>, request?: string | null): boolean {
  const chars = events.reduce((sum, event) => sum + event.length, 0);
  return chars + (row.snapshot?.length ?? 0) + (request?.length ?? 0) <= MAX_CHARS;
}
