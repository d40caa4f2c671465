import { Batcher, type JointWork } from '../connection/batcher.js';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import * as sql from './group-statements.js';
import { type CreatedRow, createdTask } from './task-rows.js';
import type { TaskTables } from './task-statements.js';
import type { AppendOptions, CreatedTask, CreateOptions, TaskScope } from '../../tasks/task-store.js';

/** The status that a commit leaves behind, and the version that set it; nothing where it sets none. */
export interface CommitStatus {
  state?: string;
  stateVersion?: number;
}

/** A new task's first commit, its events as they are stored. */
export interface FirstCommit extends Required<CommitStatus> {
  scope: TaskScope;
  events: readonly string[];
  head: string;
  options: CreateOptions;
}

/** A later commit. */
export interface LaterCommit extends CommitStatus {
  taskNo: number;
  events: readonly string[];
  /** Undefined where it stays as it is. */
  head: string | undefined;
  options: AppendOptions;
}

/** Undefined where nothing was stored. */
export type CreateOne = JointWork<FirstCommit, CreatedTask | undefined>['alone'];
export type AppendOne = JointWork<LaterCommit, number | undefined>['alone'];

/** Two are enough to keep the database busy while the next ones gather; more of them gain nothing for a larger group. */
const LIMITS = { atOnce: 2, maxItems: 16 };

/** A commit of more characters goes alone: it would hold up the others. */
const MAX_CHARS = 32 * 1024;

/**
 * Group commit: the commits of several turns in one statement, where more of them come than go. Each of them is fenced as
 * it is alone, and alone goes what a group cannot take or leaves out.
 */
export class GroupCommit {
  private readonly creates: Batcher<FirstCommit, CreatedTask | undefined>;
  private readonly appends: Batcher<LaterCommit, number | undefined>;
  private readonly createAllStatement: string;
  private readonly appendAllStatement: string;

  constructor(
    private readonly database: ClusterDatabase,
    tables: TaskTables,
    private readonly agent: string,
    private readonly createOne: CreateOne,
    private readonly appendOne: AppendOne,
  ) {
    this.createAllStatement = database.prepared(sql.createAllStatement(tables));
    this.appendAllStatement = database.prepared(sql.appendAllStatement(tables));
    this.creates = new Batcher({ alone: createOne, together: (commits, ms) => this.createAll(commits, ms) }, LIMITS);
    this.appends = new Batcher({ alone: appendOne, together: (commits, ms) => this.appendAll(commits, ms) }, LIMITS);
  }

  /** The common kind in a group; one without a receipt or with a push receiver alone. */
  create(commit: FirstCommit): Promise<CreatedTask | undefined> {
    const { receipt, push, lease } = commit.options;
    const groups = receipt !== undefined && push === undefined && isSmall(commit, lease?.request);
    const timeoutMs = this.bounded(commit);
    return groups ? this.creates.ask(commit, timeoutMs) : this.createOne(commit, timeoutMs);
  }

  /** One under a lease in a group. */
  append(commit: LaterCommit): Promise<number | undefined> {
    const groups = commit.options.generation !== undefined && isSmall(commit);
    const timeoutMs = this.bounded(commit);
    return groups ? this.appends.ask(commit, timeoutMs) : this.appendOne(commit, timeoutMs);
  }

  private async createAll(
    commits: readonly FirstCommit[],
    timeoutMs: number,
  ): Promise<ReadonlyMap<number, CreatedTask>> {
    const windowMs = commits[0]?.options.receipt?.windowMs ?? 0;
    // One statement has one window, and takes over no receipt twice.
    const places = firstOfEach(commits, ({ scope, options: { receipt } }) => {
      if (receipt?.windowMs !== windowMs) return undefined;
      return JSON.stringify([scope.tenant, scope.owner, receipt.messageId, receipt.fingerprint]);
    });
    const rows = await this.database.query<CreatedRow & { at: number }>(
      this.createAllStatement,
      sql.createAllParams(
        places.map((at) => firstCommitRow(commits[at]!)),
        { agent: this.agent, windowMs },
      ),
      timeoutMs,
    );
    return new Map(
      rows.map(({ at, ...made }) => {
        const place = places[at - 1]!;
        return [place, createdTask(made, commits[place]!.events.length)];
      }),
    );
  }

  private async appendAll(commits: readonly LaterCommit[], timeoutMs: number): Promise<ReadonlyMap<number, number>> {
    // One statement changes no row twice: of two commits of one task it would do parts of both.
    const places = firstOfEach(commits, ({ taskNo }) => taskNo);
    const rows = await this.database.query<{ at: number; version: number }>(
      this.appendAllStatement,
      sql.appendAllParams(places.map((at) => laterCommitRow(commits[at]!))),
      timeoutMs,
    );
    return new Map(rows.map(({ at, version }) => [places[at - 1]!, version]));
  }

  private bounded({ options: { timeoutMs = Infinity } }: FirstCommit | LaterCommit): number {
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

function isSmall({ events, options }: FirstCommit | LaterCommit, request?: string | null): boolean {
  const chars = events.reduce((sum, event) => sum + event.length, 0);
  return chars + (options.snapshot?.length ?? 0) + (request?.length ?? 0) <= MAX_CHARS;
}

function firstCommitRow({
  scope,
  events,
  head,
  state,
  stateVersion,
  options: { contextId, snapshot, commitId, lease, receipt },
}: FirstCommit): sql.GroupedCommit<sql.FirstCommitRow> {
  return {
    events,
    row: {
      ...{ tenant: scope.tenant, owner: scope.owner, task_id: scope.taskId, context_id: contextId },
      ...{ state, state_version: stateVersion, snapshot, count: events.length },
      ...{ commit_id: commitId, message_id: receipt?.messageId, fingerprint: receipt?.fingerprint },
      ...{ kind: lease?.kind, turn_id: lease?.turnId, holder: lease?.holder, ttl: lease?.ttlMs },
      ...{ request: lease?.request, context: lease?.context, head },
    },
  };
}

function laterCommitRow({
  taskNo,
  events,
  head,
  state,
  stateVersion,
  options: { expectedVersion, generation, endsTurn, commitId, snapshot },
}: LaterCommit): sql.GroupedCommit<sql.LaterCommitRow> {
  return {
    events,
    row: {
      head,
      ...{ task_no: taskNo, version: expectedVersion, generation, ends: endsTurn, count: events.length },
      ...{ commit_id: commitId, state, state_version: stateVersion, snapshot },
    },
  };
}
