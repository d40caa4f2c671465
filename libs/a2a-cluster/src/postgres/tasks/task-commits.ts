import type { ClusterDatabase, SqlExecutor } from '../connection/cluster-database.js';
import { ConcurrentTaskModificationError } from '../../errors/concurrent-task-modification.error.js';
import { LeaseLostError } from '../../errors/lease-lost.error.js';
import { MessageRepeatedError } from '../../errors/message-repeated.error.js';
import { type CommitStatus, type FirstCommit, GroupCommit, type LaterCommit } from './group-commit.js';
import type { LockedTasks } from './locked-tasks.js';
import type { MessageReceipts } from './message-receipts.js';
import type { PreparedTaskStatements } from './prepared-task-statements.js';
import { stateSetBy, type TaskEvent } from '../../tasks/task-event.js';
import { encodeEvent } from '../../tasks/task-event.codec.js';
import { type CreatedRow, createdTask, madeLease, stateOfRow } from './task-rows.js';
import { joinLines, type TaskTables } from './task-statements.js';
import { changesHead, NO_HEAD } from '../../tasks/task-head.js';
import { isTerminal, stateName } from '../../tasks/task-states.js';
import type { AppendOptions, CreatedTask, CreateOptions, EventOptions, TaskScope } from '../../tasks/task-store.js';

/** How often a task is made anew after the receipt of a deleted task, or one that ran out, stood in its way. */
const MAX_TRIES = 3;

/** The commits of turns: one round trip each, or a share of one, and a transaction that finds out why nothing was stored. */
export class TaskCommits {
  private readonly group: GroupCommit;

  constructor(
    private readonly database: ClusterDatabase,
    private readonly prepared: PreparedTaskStatements,
    private readonly locked: LockedTasks,
    private readonly receipts: MessageReceipts,
    tables: TaskTables,
    private readonly agent: string,
  ) {
    this.group = new GroupCommit(
      database,
      tables,
      agent,
      (commit, timeoutMs) => this.createOne(commit, timeoutMs),
      (commit, timeoutMs) => this.appendOne(database, commit, timeoutMs),
    );
  }

  /** As {@link VersionedTaskStore.create}. */
  async create(scope: TaskScope, events: readonly TaskEvent[], options: CreateOptions): Promise<CreatedTask> {
    const commit: FirstCommit = {
      scope,
      events: textsOf(events, options),
      head: options.head ?? NO_HEAD,
      options,
      ...{ state: stateName(0), stateVersion: 0, ...lastStatus(events, 0) },
    };
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const created = (await this.group.create(commit)) ?? (await this.createdBefore(scope, events, options));
      if (created) return created;
    }
    // It is not a receipt that stands in the way, but a task that this agent cannot see: another agent's.
    throw new ConcurrentTaskModificationError(scope.taskId, 0);
  }

  private async createOne(
    { scope, events, head, state, stateVersion, options }: FirstCommit,
    timeoutMs: number,
  ): Promise<CreatedTask | undefined> {
    const { tenant, owner, taskId } = scope;
    const { lease, receipt, push, commitId, contextId, snapshot } = options;
    const [made] = await this.database.query<CreatedRow>(
      this.prepared.create({
        ...{ leased: lease !== undefined, receipted: receipt !== undefined, pushed: push !== undefined },
      }),
      [
        ...[tenant, owner, taskId, this.agent, contextId, state, stateVersion],
        ...[snapshot, joinLines(events), events.length, commitId, head],
        ...(lease ? [lease.kind, lease.turnId, lease.holder, lease.ttlMs, lease.request, lease.context] : []),
        ...(receipt ? [receipt.messageId, receipt.fingerprint, receipt.windowMs] : []),
        ...(push ? [push.configId, push.config, push.wireVersion] : []),
      ],
      timeoutMs,
    );
    return made && createdTask(made, events.length);
  }

  /**
   * Not made: by this very commit, whose answer was lost, because the message is a repetition, or the id is taken.
   * Undefined where nothing of this stands in the way any more.
   */
  private createdBefore(
    scope: TaskScope,
    events: readonly TaskEvent[],
    { receipt, lease, commitId, timeoutMs }: CreateOptions,
  ): Promise<CreatedTask | undefined> {
    return this.database.transaction(async (tx) => {
      const row = await this.locked.read(tx, scope);
      if (!row || !(await this.locked.doneVersion(tx, Number(row.taskNo), commitId, 0))) {
        const first = receipt && (await this.receipts.repeated(tx, scope, receipt));
        if (first !== undefined) throw new MessageRepeatedError(first);
        // The receipt that stood in the way has run out meanwhile, or its task was deleted.
        if (!row && receipt) return void (await this.receipts.forgetOrphan(tx, scope, receipt));
        throw new ConcurrentTaskModificationError(scope.taskId, 0);
      }
      if (lease && !madeLease(row, lease)) throw new LeaseLostError(scope.taskId, 'another replica has claimed it');
      const generation = lease ? Number(row.leaseGeneration) : undefined;
      return { taskNo: Number(row.taskNo), version: events.length, generation };
    }, timeoutMs);
  }

  /** As {@link VersionedTaskStore.append}. */
  async append(
    { taskNo, taskId }: { taskNo: number; taskId: string },
    events: readonly TaskEvent[],
    options: AppendOptions,
  ): Promise<number> {
    const version = await this.group.append(laterCommit(taskNo, events, options));
    if (version !== undefined) return version;
    return this.database.transaction(async (tx) => {
      const row = await this.locked.read(tx, taskNo);
      const done = row && (await this.locked.doneVersion(tx, taskNo, options.commitId, options.expectedVersion));
      if (done) return done;
      if (!row) throw new LeaseLostError(taskId, 'the task was deleted');
      if (isTerminal(stateOfRow(row))) throw new LeaseLostError(taskId, `the task has ended as ${row.state}`);
      if (options.generation !== undefined && Number(row.leaseGeneration) !== options.generation) {
        throw new LeaseLostError(taskId, 'another replica has claimed or ended it');
      }
      throw new ConcurrentTaskModificationError(taskId, options.expectedVersion);
    }, options.timeoutMs);
  }

  /** The same as one step of a transaction: all of it, or undefined and nothing. */
  appendWithin(
    tx: SqlExecutor,
    taskNo: number,
    events: readonly TaskEvent[],
    options: AppendOptions,
  ): Promise<number | undefined> {
    return this.appendOne(tx, laterCommit(taskNo, events, options));
  }

  private async appendOne(
    executor: SqlExecutor,
    { taskNo, events, head, state, stateVersion, options }: LaterCommit,
    timeoutMs?: number,
  ): Promise<number | undefined> {
    const { expectedVersion, commitId, generation, endsTurn, snapshot } = options;
    const fenced = generation !== undefined;
    const statement = this.prepared.append({ fenced, endsTurn });
    const params = [
      ...[taskNo, expectedVersion, joinLines(events), commitId, state ?? null, stateVersion ?? null],
      ...[snapshot ?? null, events.length, head ?? null, ...(fenced ? [generation] : [])],
    ];
    const [row] = await executor.query<{ version: number }>(statement, params, timeoutMs);
    return row?.version;
  }
}

function textsOf(events: readonly TaskEvent[], { texts }: EventOptions): readonly string[] {
  if (!texts) return events.map(encodeEvent);
  if (texts.length !== events.length)
    throw new RangeError(`There are ${texts.length} texts for ${events.length} events.`);
  return texts;
}

const laterCommit = (taskNo: number, events: readonly TaskEvent[], options: AppendOptions): LaterCommit => ({
  ...{ taskNo, events: textsOf(events, options), options },
  // Who says nothing of it may have changed it.
  head: options.head ?? (events.some(changesHead) ? NO_HEAD : undefined),
  ...lastStatus(events, options.expectedVersion),
});

/** The status that a batch leaves behind, and the version that set it. */
function lastStatus(events: readonly TaskEvent[], before: number): CommitStatus {
  const at = events.findLastIndex((event) => stateSetBy(event) !== undefined);
  const state = at < 0 ? undefined : stateSetBy(events[at]!);
  return state === undefined ? {} : { state: stateName(state), stateVersion: before + at + 1 };
}
