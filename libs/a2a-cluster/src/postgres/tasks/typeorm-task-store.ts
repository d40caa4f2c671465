import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { ListTasksRequest, ListTasksResponse, Message, Task } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import { prunedBy, type SqlExecutor, type Statement } from '../connection/statement.js';
import { readRepeatedly } from '../connection/repeatable.js';
import { ConcurrentTaskModificationError } from '../../errors/concurrent-task-modification.error.js';
import { LeaseLostError } from '../../errors/lease-lost.error.js';
import type { LeaseRequest } from '../../leases/lease-store.js';
import { turnOfTheLoop } from '../../async/turn-of-the-loop.js';
import { racePoint } from '../../race-points/race-points.js';
import { applyEvent } from '../../tasks/apply-event.js';
import { expandTaskEvent } from '../../tasks/expand-task-event.js';
import { withEvent } from '../../tasks/task-with-event.js';
import { LockedTasks } from './locked-tasks.js';
import { MessageReceipts } from './message-receipts.js';
import { TaskCommits } from './task-commits.js';
import { PAGE_BYTES, type TaskEvent, type VersionedTaskEvent } from '../../tasks/task-event.js';
import { decodeTaskInTurns, encodeTask, encodeTaskInTurns } from '../../tasks/task-event.codec.js';
import { headOf } from '../../tasks/task-head.js';
import { foundTask, isWaiting, isLeaseOf, stateOfRow, storedTask, tailOf } from './task-rows.js';
import { TaskListing } from './task-listing.js';
import { pruneStatements } from './prune-statements.js';
import { type OverdueTask, type TaskStatements, taskStatements } from './task-statements.js';
import { isInterrupted, isTerminal, stateOf } from '../../tasks/task-states.js';
import {
  type Admission,
  type AdmitOptions,
  type AppendOptions,
  type CancelRequest,
  type CreatedTask,
  type CreateOptions,
  type FoundTask,
  type LargeTask,
  type MakeRoom,
  type MessageReceipt,
  type StoredTask,
  type TaskPosition,
  type TaskScope,
  type TaskText,
  VersionedTaskStore,
  type WriteOptions,
} from '../../tasks/task-store.js';
import { ResolvedOptions } from '../../options/cluster.options.js';
import { StaticOptions } from '../../options/static.options.js';
import { DatabaseAccess } from '../connection/database-access.js';
import { tablesOf } from '../schema/table-names.js';
import { type ScopeResolver, scopeResolver } from '../../tasks/task-scope.js';

/** No text of PostgreSQL is longer. */
const MAX_TEXT_BYTES = 2 ** 30;

/** Tasks and their event logs in the app's database. */
@Injectable()
export class TypeOrmTaskStore extends VersionedTaskStore {
  readonly database: ClusterDatabase;
  private readonly agent: string;
  private readonly scopeOf: ScopeResolver;
  private readonly listing: TaskListing;
  private readonly sql: TaskStatements;
  private readonly pruning: ReturnType<typeof pruneStatements>;
  private readonly receipts: MessageReceipts;
  private readonly locked: LockedTasks;
  private readonly commits: TaskCommits;
  /** The version that `load` saw, by call and task. The SDK clones tasks, so the task itself cannot carry it. */
  private readonly seen = new WeakMap<ServerCallContext, Map<string, StoredTask>>();

  constructor(access: DatabaseAccess, { agentId: agent }: StaticOptions, { ownerResolver }: ResolvedOptions) {
    super();
    const database = access.require();
    const tables = tablesOf(database.dataSource);
    this.database = database;
    this.agent = agent;
    this.scopeOf = scopeResolver(ownerResolver);
    this.sql = taskStatements(tables, database);
    this.pruning = pruneStatements(tables);
    this.receipts = new MessageReceipts(database, tables, agent);
    this.locked = new LockedTasks(this.sql, agent);
    this.commits = new TaskCommits(database, this.locked, this.receipts, tables, agent);
    this.listing = new TaskListing(database, tables, agent);
  }

  override async find({ tenant, owner, taskId }: TaskScope): Promise<FoundTask | undefined> {
    const [found] = await this.read(this.sql.find, { tenant, owner, taskId, agent: this.agent });
    return found;
  }

  override async findByNo(taskNo: number): Promise<FoundTask | undefined> {
    const [row] = await this.read(this.sql.findByNo, { taskNo });
    return row && foundTask(row);
  }

  override async findUpTo(which: TaskScope | number, maxBytes: number): Promise<FoundTask | LargeTask | undefined> {
    const limit = Math.min(maxBytes, MAX_TEXT_BYTES);
    const [found] =
      typeof which === 'number'
        ? await this.read(this.sql.findByNoUpTo, { taskNo: which, maxBytes: limit })
        : await this.read(this.sql.findUpTo, { ...which, agent: this.agent, maxBytes: limit });
    return found;
  }

  /** Without a tail the snapshot is the text as it stands. */
  override async readText(taskNo: number): Promise<TaskText | undefined> {
    const [row] = await this.read(this.sql.findByNo, { taskNo });
    if (!row) return undefined;
    const { version, tail, snapshot } = row;
    const state = stateOfRow(row);
    if (tail === null && tailOf(row).length === 0) return { version, state, text: snapshot };
    const before = await decodeTaskInTurns(snapshot);
    await turnOfTheLoop();
    const task = tailOf(row).reduce(applyEvent, before);
    await turnOfTheLoop();
    return { version, state, text: await encodeTaskInTurns(task) };
  }

  override findRepeated(scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined> {
    return this.receipts.find(scope, receipt);
  }

  override create(scope: TaskScope, events: readonly TaskEvent[], options: CreateOptions): Promise<CreatedTask> {
    return this.commits.create(scope, events, options);
  }

  override append(
    task: { taskNo: number; taskId: string },
    events: readonly TaskEvent[],
    options: AppendOptions,
  ): Promise<number> {
    return this.commits.append(task, events, options);
  }

  override async admit(
    scope: TaskScope,
    message: Message,
    lease: LeaseRequest | undefined,
    { turnId = lease?.turnId ?? randomUUID(), again, receipt, push, timeoutMs }: AdmitOptions = {},
  ): Promise<Admission> {
    racePoint('follow-up.before');
    const admission = await this.database.transaction<Admission>(async (tx) => {
      const row = await this.locked.read(tx, scope);
      racePoint('follow-up.locked');
      if (!row) return { outcome: 'unknown' };
      const taskNo = Number(row.taskNo);
      if (isLeaseOf(row, lease)) {
        // Our COMMIT went through, its answer was lost.
        return { outcome: 'admitted', generation: Number(row.leaseGeneration), stored: storedTask(row) };
      }
      if (again && (await this.locked.doneVersion(tx, taskNo, turnId, 0))) {
        const stored = storedTask(row);
        return lease ? { outcome: 'lost', stored } : { outcome: 'admitted', generation: undefined, stored };
      }
      const first = receipt && (await this.receipts.repeated(tx, scope, receipt));
      if (first !== undefined) return { outcome: 'repeated', taskNo: first };
      const state = stateOfRow(row);
      if (isTerminal(state)) return { outcome: 'terminal', state };
      if (message.contextId && message.contextId !== row.contextId) {
        return { outcome: 'otherContext', contextId: row.contextId };
      }
      if (row.leaseGeneration !== null) {
        if (row.expired) return { outcome: 'abandoned' };
        return { outcome: 'busy', waiting: isWaiting(row) };
      }
      if (!isInterrupted(state)) return { outcome: 'busy', waiting: false };
      const userMessage = { ...message, contextId: row.contextId, taskId: scope.taskId };
      const event: TaskEvent = { kind: 'userMessage', userMessage };
      const { stored, stores } = withEvent(storedTask(row), event);
      const append = { expectedVersion: row.version, commitId: turnId, endsTurn: false, ...stores };
      const version = await this.commits.appendWithin(tx, taskNo, [event], append);
      if (version === undefined) throw new ConcurrentTaskModificationError(scope.taskId, row.version);
      const generation = lease && (await this.acquire(tx, taskNo, version, lease));
      if (receipt) await this.receipts.remember(tx, scope, receipt, taskNo);
      if (push) {
        const { configId, config, wireVersion } = push;
        await this.sql.savePush.run(tx, { taskNo, configId, config, wireVersion, version });
      }
      racePoint('follow-up.within');
      return { outcome: 'admitted', generation, stored };
    }, timeoutMs);
    racePoint('follow-up.after');
    return admission;
  }

  override requestCancel(
    scope: TaskScope,
    lease: LeaseRequest | undefined,
    { timeoutMs }: WriteOptions = {},
  ): Promise<CancelRequest> {
    racePoint('cancel.before');
    return this.database.transaction<CancelRequest>(
      async (tx) => {
        const row = await this.locked.read(tx, scope);
        if (!row) return { outcome: 'unknown' };
        const taskNo = Number(row.taskNo);
        if (isTerminal(stateOfRow(row))) return { outcome: 'terminal', stored: storedTask(row) };
        if (isLeaseOf(row, lease)) {
          return { outcome: 'admitted', generation: Number(row.leaseGeneration), stored: storedTask(row) };
        }
        if (row.leaseGeneration === null) {
          const generation = lease && (await this.acquire(tx, taskNo, row.version, lease));
          racePoint('cancel-turn.within');
          return { outcome: 'admitted', generation, stored: storedTask(row) };
        }
        // Flagged even where it has run out: should we die now, whoever recovers it cancels instead of failing.
        await this.sql.flagCancel.run(tx, { taskNo });
        racePoint('cancel-flag.within');
        const abandoned = row.expired === true || row.leaseHolder === null;
        return abandoned ? { outcome: 'abandoned' } : { outcome: 'requested', taskNo, version: row.version };
      },
      timeoutMs,
      'control',
    );
  }

  override async forceEnd(
    scope: TaskScope,
    end: (task: Task) => TaskEvent,
    { timeoutMs, idleSince }: WriteOptions & { idleSince?: number } = {},
  ): Promise<StoredTask> {
    racePoint('forced-end.before');
    const ended = await this.database.transaction(
      async (tx) => {
        const row = await this.locked.read(tx, scope);
        if (!row) throw new LeaseLostError(scope.taskId, 'the task was deleted');
        const taskNo = Number(row.taskNo);
        const stored = storedTask(row);
        if (isTerminal(stateOfRow(row))) return stored;
        const taken = row.leaseGeneration !== null || row.stateVersion !== idleSince;
        if (idleSince !== undefined && taken) return stored;
        const event = end(stored.task);
        const task = applyEvent(stored.task, event);
        const append = {
          expectedVersion: row.version,
          commitId: randomUUID(),
          endsTurn: true,
          snapshot: encodeTask(task),
          head: headOf(task),
        };
        const version = await this.commits.appendWithin(tx, taskNo, [event], append);
        if (version === undefined) throw new ConcurrentTaskModificationError(task.id, row.version);
        racePoint('forced-end.within');
        return { taskNo, version, stateVersion: version, task };
      },
      timeoutMs,
      'control',
    );
    racePoint('forced-end.after');
    return ended;
  }

  override overdue(waitingForMs: number, limit: number, afterTaskNo: number): Promise<OverdueTask[]> {
    return this.sql.overdue.run(this.database, { agent: this.agent, waitingForMs, limit, afterTaskNo });
  }

  override withoutLease(unchangedForMs: number, limit: number): Promise<TaskScope[]> {
    return this.sql.withoutLease.run(this.database, { agent: this.agent, unchangedForMs, limit });
  }

  override pruneEvents(olderThanMs: number, limit: number): Promise<number> {
    return prunedBy(this.database, this.pruning.events, { olderThanMs, limit });
  }

  override pruneReceipts(olderThanMs: number, limit: number): Promise<number> {
    return prunedBy(this.database, this.pruning.receipts, { olderThanMs, limit });
  }

  override pruneTasks(olderThanMs: number, limit: number): Promise<number> {
    return prunedBy(this.database, this.pruning.tasks, { olderThanMs, limit, agent: this.agent });
  }

  override readEvents(taskNo: number, afterVersion: number, limit: number): Promise<VersionedTaskEvent[]> {
    return this.read(this.sql.readEvents, { taskNo, after: afterVersion, limit, bytes: PAGE_BYTES });
  }

  override async versions(taskNos: readonly number[]): Promise<Map<number, number>> {
    const positions = await this.positions(taskNos);
    return new Map([...positions].map(([taskNo, { version }]) => [taskNo, version]));
  }

  /** Not repeated where it fails: polls ask, which come again by themselves. */
  override async positions(taskNos: readonly number[]): Promise<Map<number, TaskPosition>> {
    const rows = await this.sql.positions.run(this.database, { taskNos }, { lane: 'read' });
    return new Map(rows.map(({ taskNo, version, ended }) => [Number(taskNo), { version, ended }]));
  }

  override async load(taskId: string, context: ServerCallContext): Promise<Task | undefined> {
    const stored = await this.find(this.scopeOf(context, taskId));
    if (!stored) return undefined;
    this.noteSeen(context, stored);
    return stored.task;
  }

  override async save(task: Task, context: ServerCallContext): Promise<void> {
    const scope = this.scopeOf(context, task.id);
    const seen = this.seen.get(context)?.get(task.id);
    const commitId = randomUUID();
    if (!seen) {
      const { contextId } = task;
      const snapshot = encodeTask(task);
      const head = headOf(task);
      const made = await this.create(scope, [{ kind: 'task', task }], { contextId, commitId, snapshot, head });
      this.noteSeen(context, { ...made, stateVersion: 1, task });
      return;
    }
    // The caller may have changed the task that `load` gave it, so it is folded anew.
    const stored = await this.find(scope);
    if (stored?.version !== seen.version) throw new ConcurrentTaskModificationError(task.id, seen.version);
    const events = expandTaskEvent(stored.task, task);
    if (events.length === 0) return;
    const saved = events.reduce<Task>(applyEvent, stored.task);
    const endsTurn = isTerminal(stateOf(saved));
    const texts = { snapshot: encodeTask(saved), head: headOf(saved) };
    const options = { expectedVersion: seen.version, commitId, endsTurn, ...texts };
    const version = await this.append({ taskNo: seen.taskNo, taskId: task.id }, events, options);
    this.noteSeen(context, { ...seen, version });
  }

  override list(params: ListTasksRequest, context: ServerCallContext, makeRoom?: MakeRoom): Promise<ListTasksResponse> {
    return this.listing.list(params, this.scopeOf(context, ''), makeRoom);
  }

  /** One that fails in passing is repeated. */
  private read<P extends object, R extends object>(statement: Statement<P, R>, params: P): Promise<R[]> {
    return readRepeatedly(this.database, statement, params);
  }

  private noteSeen(context: ServerCallContext, stored: StoredTask): void {
    const versions = this.seen.get(context) ?? new Map<string, StoredTask>();
    this.seen.set(context, versions.set(stored.task.id, stored));
  }

  private async acquire(tx: SqlExecutor, taskNo: number, version: number, lease: LeaseRequest): Promise<number> {
    const [row] = await this.sql.acquire.run(tx, { ...lease, taskNo, agent: this.agent, version });
    return Number(row?.generation);
  }
}
