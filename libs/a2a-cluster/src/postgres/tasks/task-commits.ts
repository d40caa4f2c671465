import type { ClusterDatabase } from '../connection/cluster-database.js';
import type { SqlExecutor } from '../connection/statement.js';
import { ConcurrentTaskModificationError } from '../../errors/concurrent-task-modification.error.js';
import { LeaseLostError } from '../../errors/lease-lost.error.js';
import { MessageRepeatedError } from '../../errors/message-repeated.error.js';
import { stateSetBy, type TaskEvent } from '../../tasks/task-event.js';
import { encodeEvent } from '../../tasks/task-event.codec.js';
import { changesHead, NO_HEAD } from '../../tasks/task-head.js';
import { isTerminal, stateName } from '../../tasks/task-states.js';
import type { AppendOptions, CreatedTask, CreateOptions, EventOptions, TaskScope } from '../../tasks/task-store.js';
import { type FirstCommit, GroupCommit, type LaterCommit } from './group-commit.js';
import type { LockedTasks } from './locked-tasks.js';
import type { MessageReceipts } from './message-receipts.js';
import { isLeaseOf, stateOfRow } from './task-rows.js';
import type { TaskTables } from './task-statements.js';

/** How often a task is made anew after the receipt of a deleted task, or one that ran out, stood in its way. */
const MAX_TRIES = 3;

/**
 * The commits of turns: one round trip each, or a share of one, and a transaction that finds out why nothing was
 * stored.
 */
export class TaskCommits {
  private readonly group: GroupCommit;

  constructor(
    private readonly database: ClusterDatabase,
    private readonly locked: LockedTasks,
    private readonly receipts: MessageReceipts,
    tables: TaskTables,
    agent: string,
  ) {
    this.group = new GroupCommit(database, tables, agent);
  }

  /** As {@link VersionedTaskStore.create}. */
  async create(scope: TaskScope, events: readonly TaskEvent[], options: CreateOptions): Promise<CreatedTask> {
    const commit = firstCommit(scope, events, options);
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const made = await this.group.create(commit, options.timeoutMs);
      if (made) return { taskNo: made.taskNo, version: events.length, generation: made.generation };
      const before = await this.createdBefore(scope, events, options);
      if (before) return before;
    }
    // It is not a receipt that stands in the way, but a task that this agent cannot see: another agent's.
    throw new ConcurrentTaskModificationError(scope.taskId, 0);
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
      if (lease && !isLeaseOf(row, lease)) throw new LeaseLostError(scope.taskId, 'another replica has claimed it');
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
    const version = await this.group.append(laterCommit(taskNo, events, options), options.timeoutMs);
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
    return this.group.appendWithin(tx, laterCommit(taskNo, events, options));
  }
}

function textsOf(events: readonly TaskEvent[], { texts }: EventOptions): readonly string[] {
  if (!texts) return events.map(encodeEvent);
  if (texts.length !== events.length)
    throw new RangeError(`There are ${texts.length} texts for ${events.length} events.`);
  return texts;
}

function firstCommit(scope: TaskScope, events: readonly TaskEvent[], options: CreateOptions): FirstCommit {
  const { lease, receipt, push } = options;
  const { state = stateName(0), stateVersion = 0 } = lastStatus(events, 0);
  return {
    events: textsOf(events, options),
    windowMs: receipt?.windowMs ?? 0,
    row: {
      tenant: scope.tenant,
      owner: scope.owner,
      task_id: scope.taskId,
      context_id: options.contextId,
      state,
      state_version: stateVersion,
      snapshot: options.snapshot,
      head: options.head,
      count: events.length,
      commit_id: options.commitId,
      message_id: receipt?.messageId,
      fingerprint: receipt?.fingerprint,
      kind: lease?.kind,
      turn_id: lease?.turnId,
      holder: lease?.holder,
      ttl: lease?.ttlMs,
      request: lease?.request,
      context: lease?.context,
      config_id: push?.configId,
      config: push?.config,
      wire_version: push?.wireVersion,
    },
  };
}

function laterCommit(taskNo: number, events: readonly TaskEvent[], options: AppendOptions): LaterCommit {
  const { state, stateVersion } = lastStatus(events, options.expectedVersion);
  return {
    events: textsOf(events, options),
    row: {
      task_no: taskNo,
      version: options.expectedVersion,
      generation: options.generation,
      ends: options.endsTurn,
      count: events.length,
      commit_id: options.commitId,
      state,
      state_version: stateVersion,
      snapshot: options.snapshot,
      // A caller that gives no head may have changed it all the same.
      head: options.head ?? (events.some(changesHead) ? NO_HEAD : undefined),
    },
  };
}

/** The status that a batch leaves behind, and the version that set it. Neither where it sets none. */
function lastStatus(events: readonly TaskEvent[], before: number): { state?: string; stateVersion?: number } {
  const at = events.findLastIndex((event) => stateSetBy(event) !== undefined);
  const state = at < 0 ? undefined : stateSetBy(events[at]!);
  return state === undefined ? {} : { state: stateName(state), stateVersion: before + at + 1 };
}
