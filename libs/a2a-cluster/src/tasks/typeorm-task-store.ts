import { randomUUID } from 'node:crypto';
import type { ListTasksRequest, ListTasksResponse, Message, Task } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { ClusterDatabase, SqlExecutor } from '../database/cluster-database.js';
import { ConcurrentTaskModificationError } from '../errors/concurrent-task-modification.error.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { MessageRepeatedError } from '../errors/message-repeated.error.js';
import type { LeaseRequest } from '../leases/lease-store.js';
import { racePoint } from '../race-points/race-points.js';
import { applyEvent } from './apply-event.js';
import { expandTaskEvent } from './expand-task-event.js';
import * as receipts from './receipt-statements.js';
import { RepeatedLookups } from './repeated-lookups.js';
import { PAGE_BYTES, stateSetBy, type TaskEvent, type VersionedTaskEvent } from './task-event.js';
import { decodeEvent, encodeEvent, encodeTask } from './task-event.codec.js';
import {
  type DecisionRow,
  type FoundRow,
  foundTask,
  isWaiting,
  madeLease,
  stateOfRow,
  storedTask,
} from './task-rows.js';
import type { ScopeResolver } from './task-scope.js';
import { TaskListing } from './task-listing.js';
import { pruneEventsStatement, pruneTasksStatement } from './prune-statements.js';
import { PreparedTaskStatements } from './prepared-task-statements.js';
import * as sql from './task-statements.js';
import { isInterrupted, isTerminal, stateName } from './task-states.js';
import {
  type Admission,
  type AdmitOptions,
  type AppendOptions,
  type CancelRequest,
  type CreatedTask,
  type CreateOptions,
  type FoundTask,
  type MessageReceipt,
  type StoredTask,
  type TaskScope,
  VersionedTaskStore,
  type WriteOptions,
} from './task-store.js';

type OverdueTask = Awaited<ReturnType<VersionedTaskStore['overdue']>>[number];
interface EventRow {
  version: number;
  event: string;
  bytes: number;
}
type OverdueRow = TaskScope & { taskNo: string; stateVersion: number };

/** Tasks and their event logs in the app's database. */
export class TypeOrmTaskStore extends VersionedTaskStore {
  private readonly listing: TaskListing;
  private readonly prepared: PreparedTaskStatements;
  private readonly lookups: RepeatedLookups;
  /** Which version `load` saw, per call and task: the SDK clones tasks, so the task itself cannot carry it. */
  private readonly seen = new WeakMap<ServerCallContext, Map<string, StoredTask>>();

  constructor(
    /** By it a lease store knows that it shares these transactions. */
    readonly database: ClusterDatabase,
    private readonly tables: sql.TaskTables,
    private readonly agent: string,
    private readonly scopeOf: ScopeResolver,
  ) {
    super();
    this.prepared = new PreparedTaskStatements(database, tables);
    this.lookups = new RepeatedLookups(database, tables, agent);
    this.listing = new TaskListing(database, tables, agent);
  }

  override async find({ tenant, owner, taskId }: TaskScope): Promise<FoundTask | undefined> {
    const params = [tenant, owner, taskId, this.agent];
    const [row] = await this.database.query<FoundRow>(this.prepared.find, params);
    return row && foundTask(row);
  }

  override async findByNo(taskNo: number): Promise<FoundTask | undefined> {
    const [row] = await this.database.query<FoundRow>(this.prepared.findByNo, [taskNo]);
    return row && foundTask(row);
  }

  override findRepeated(scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined> {
    return this.lookups.find(scope, receipt);
  }

  override async create(scope: TaskScope, events: readonly TaskEvent[], options: CreateOptions): Promise<CreatedTask> {
    const { tenant, owner, taskId } = scope;
    const { lease, receipt, push, commitId, contextId, snapshot, timeoutMs } = options;
    const { state, stateVersion } = lastStatus(events, 0);
    const [made] = await this.database.query<{ taskNo: string; generation?: string }>(
      this.prepared.create({
        ...{ leased: lease !== undefined, receipted: receipt !== undefined, pushed: push !== undefined },
      }),
      [
        ...[tenant, owner, taskId, this.agent, contextId, state ?? stateName(0), stateVersion ?? 0],
        ...[snapshot, events.map(encodeEvent), commitId],
        ...(lease ? [lease.kind, lease.turnId, lease.holder, lease.ttlMs, lease.request, lease.context] : []),
        ...(receipt ? [receipt.messageId, receipt.fingerprint, receipt.windowMs] : []),
        ...(push ? [push.configId, push.config, push.wireVersion] : []),
      ],
      timeoutMs,
    );
    if (made) {
      const generation = made.generation === undefined ? undefined : Number(made.generation);
      return { taskNo: Number(made.taskNo), version: events.length, generation };
    }
    return (await this.createdBefore(scope, events, options)) ?? this.create(scope, events, options);
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
      const row = await this.lockAndRead(tx, scope);
      if (!row || !(await this.doneVersion(tx, Number(row.taskNo), commitId, 0))) {
        const first = receipt && (await this.repeated(tx, scope, receipt));
        if (first !== undefined) throw new MessageRepeatedError(first);
        // The receipt that stood in the way has run out meanwhile, or its task was deleted.
        if (!row && receipt) return void (await this.forgetOrphan(tx, scope, receipt));
        throw new ConcurrentTaskModificationError(scope.taskId, 0);
      }
      if (lease && !madeLease(row, lease)) throw new LeaseLostError(scope.taskId, 'another replica has claimed it');
      const generation = lease ? Number(row.leaseGeneration) : undefined;
      return { taskNo: Number(row.taskNo), version: events.length, generation };
    }, timeoutMs);
  }

  override async append(
    { taskNo, taskId }: { taskNo: number; taskId: string },
    events: readonly TaskEvent[],
    options: AppendOptions,
  ): Promise<number> {
    const version = await this.tryAppend(this.database, taskNo, events, options);
    if (version !== undefined) return version;
    return this.database.transaction(async (tx) => {
      const row = await this.lockAndRead(tx, taskNo);
      const done = row && (await this.doneVersion(tx, taskNo, options.commitId, options.expectedVersion));
      if (done) return done;
      if (!row) throw new LeaseLostError(taskId, 'the task was deleted');
      if (isTerminal(stateOfRow(row))) throw new LeaseLostError(taskId, `the task has ended as ${row.state}`);
      if (options.generation !== undefined && Number(row.leaseGeneration) !== options.generation) {
        throw new LeaseLostError(taskId, 'another replica has claimed or ended it');
      }
      throw new ConcurrentTaskModificationError(taskId, options.expectedVersion);
    }, options.timeoutMs);
  }

  /** One round trip: all of it, or undefined and nothing. */
  private async tryAppend(
    executor: SqlExecutor,
    taskNo: number,
    events: readonly TaskEvent[],
    { expectedVersion, commitId, generation, endsTurn, snapshot, timeoutMs }: AppendOptions,
  ): Promise<number | undefined> {
    const { state, stateVersion } = lastStatus(events, expectedVersion);
    const fenced = generation !== undefined;
    const statement = this.prepared.append({ fenced, endsTurn });
    const params = [
      ...[taskNo, expectedVersion, events.map(encodeEvent), commitId, state ?? null, stateVersion ?? null],
      ...[snapshot ?? null, ...(fenced ? [generation] : [])],
    ];
    const [row] = await executor.query<{ version: number }>(statement, params, timeoutMs);
    return row?.version;
  }

  override async admit(
    scope: TaskScope,
    message: Message,
    lease: LeaseRequest | undefined,
    { turnId = lease?.turnId ?? randomUUID(), again, receipt, push, timeoutMs }: AdmitOptions = {},
  ): Promise<Admission> {
    racePoint('follow-up.before');
    const admission = await this.database.transaction<Admission>(async (tx) => {
      const row = await this.lockAndRead(tx, scope);
      racePoint('follow-up.locked');
      if (!row) return { outcome: 'unknown' };
      const taskNo = Number(row.taskNo);
      if (madeLease(row, lease)) {
        // Our COMMIT went through, its answer was lost.
        return { outcome: 'admitted', generation: Number(row.leaseGeneration), stored: storedTask(row) };
      }
      if (again && (await this.doneVersion(tx, taskNo, turnId, 0))) {
        const stored = storedTask(row);
        return lease ? { outcome: 'lost', stored } : { outcome: 'admitted', generation: undefined, stored };
      }
      const first = receipt && (await this.repeated(tx, scope, receipt));
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
      const stored = storedTask(row);
      const userMessage = { ...message, contextId: row.contextId, taskId: scope.taskId };
      const event: TaskEvent = { kind: 'userMessage', userMessage };
      const append = { expectedVersion: row.version, commitId: turnId, endsTurn: false };
      const version = await this.tryAppend(tx, taskNo, [event], append);
      if (version === undefined) throw new ConcurrentTaskModificationError(scope.taskId, row.version);
      const generation = lease && (await this.acquire(tx, taskNo, version, lease));
      if (receipt) await this.remember(tx, scope, receipt, taskNo);
      if (push) {
        const { configId, config, wireVersion } = push;
        await tx.query(sql.savePushStatement(this.tables), [taskNo, configId, config, wireVersion, version]);
      }
      racePoint('follow-up.within');
      return { outcome: 'admitted', generation, stored: { ...stored, version, task: applyEvent(stored.task, event) } };
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
    return this.database.transaction<CancelRequest>(async (tx) => {
      const row = await this.lockAndRead(tx, scope);
      if (!row) return { outcome: 'unknown' };
      const taskNo = Number(row.taskNo);
      if (isTerminal(stateOfRow(row))) return { outcome: 'terminal', stored: storedTask(row) };
      if (madeLease(row, lease)) {
        return { outcome: 'admitted', generation: Number(row.leaseGeneration), stored: storedTask(row) };
      }
      if (row.leaseGeneration === null) {
        const generation = lease && (await this.acquire(tx, taskNo, row.version, lease));
        racePoint('cancel-turn.within');
        return { outcome: 'admitted', generation, stored: storedTask(row) };
      }
      // Flagged even where it has run out: should we die now, whoever recovers it cancels instead of failing.
      await tx.query(sql.flagCancelStatement(this.tables), [taskNo]);
      racePoint('cancel-flag.within');
      const abandoned = row.expired === true || row.leaseHolder === null;
      return abandoned ? { outcome: 'abandoned' } : { outcome: 'requested', taskNo, version: row.version };
    }, timeoutMs);
  }

  override async forceEnd(
    scope: TaskScope,
    end: (task: Task) => TaskEvent,
    { timeoutMs, idleSince }: WriteOptions & { idleSince?: number } = {},
  ): Promise<StoredTask> {
    racePoint('forced-end.before');
    const ended = await this.database.transaction(async (tx) => {
      const row = await this.lockAndRead(tx, scope);
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
      };
      const version = await this.tryAppend(tx, taskNo, [event], append);
      if (version === undefined) throw new ConcurrentTaskModificationError(task.id, row.version);
      racePoint('forced-end.within');
      return { taskNo, version, stateVersion: version, task };
    }, timeoutMs);
    racePoint('forced-end.after');
    return ended;
  }

  override async overdue(waitingForMs: number, limit: number, afterTaskNo: number): Promise<OverdueTask[]> {
    const params = [this.agent, waitingForMs, limit, afterTaskNo];
    const rows = await this.database.query<OverdueRow>(sql.overdueStatement(this.tables), params);
    return rows.map(({ taskNo, stateVersion, ...scope }) => ({ taskNo: Number(taskNo), stateVersion, scope }));
  }

  override pruneEvents(olderThanMs: number, limit: number): Promise<number> {
    return this.prune(pruneEventsStatement(this.tables), olderThanMs, limit);
  }

  override pruneReceipts(olderThanMs: number, limit: number): Promise<number> {
    return this.prune(receipts.pruneReceiptsStatement(this.tables), olderThanMs, limit);
  }

  override pruneTasks(olderThanMs: number, limit: number): Promise<number> {
    return this.prune(pruneTasksStatement(this.tables), olderThanMs, limit, this.agent);
  }

  private async prune(statement: string, ...params: unknown[]): Promise<number> {
    const [row] = await this.database.query<{ pruned: number }>(statement, params);
    return row?.pruned ?? 0;
  }

  override async readEvents(taskNo: number, afterVersion: number, limit: number): Promise<VersionedTaskEvent[]> {
    const params = [taskNo, afterVersion, limit, PAGE_BYTES];
    const rows = await this.database.query<EventRow>(this.prepared.readEvents, params);
    return rows.map(({ version, event, bytes }) => ({ version, event: decodeEvent(event), bytes }));
  }

  override async versions(taskNos: readonly number[]): Promise<Map<number, number>> {
    const rows = await this.database.query<{ taskNo: string; version: number }>(sql.versionsStatement(this.tables), [
      taskNos,
    ]);
    return new Map(rows.map(({ taskNo, version }) => [Number(taskNo), version]));
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
      const made = await this.create(scope, [{ kind: 'task', task }], { contextId, commitId, snapshot });
      this.noteSeen(context, { ...made, stateVersion: 1, task });
      return;
    }
    // What the caller saw is folded anew: it may have changed the task that `load` gave it.
    const stored = await this.find(scope);
    if (stored?.version !== seen.version) throw new ConcurrentTaskModificationError(task.id, seen.version);
    const events = expandTaskEvent(stored.task, task);
    if (events.length === 0) return;
    const saved = events.reduce<Task>(applyEvent, stored.task);
    const endsTurn = isTerminal(saved.status?.state ?? 0);
    const options = { expectedVersion: seen.version, commitId, endsTurn, snapshot: encodeTask(saved) };
    const version = await this.append({ taskNo: seen.taskNo, taskId: task.id }, events, options);
    this.noteSeen(context, { ...seen, version });
  }

  override list(params: ListTasksRequest, context: ServerCallContext): Promise<ListTasksResponse> {
    return this.listing.list(params, this.scopeOf(context, ''));
  }

  private noteSeen(context: ServerCallContext, stored: StoredTask): void {
    const versions = this.seen.get(context) ?? new Map<string, StoredTask>();
    this.seen.set(context, versions.set(stored.task.id, stored));
  }

  /** The lock first; what is decided from is read after it, by a statement that sees all that came before the lock. */
  private async lockAndRead(tx: SqlExecutor, which: TaskScope | number): Promise<DecisionRow | undefined> {
    const [locked] =
      typeof which === 'number'
        ? await tx.query<{ taskNo: string }>(this.prepared.lockByNo, [which])
        : await tx.query<{ taskNo: string }>(this.prepared.lock, [
            ...[which.tenant, which.owner, which.taskId, this.agent],
          ]);
    if (!locked) return undefined;
    const [row] = await tx.query<DecisionRow>(this.prepared.decide, [locked.taskNo]);
    return row;
  }

  private async acquire(tx: SqlExecutor, taskNo: number, version: number, lease: LeaseRequest): Promise<number> {
    const { kind, turnId, holder, ttlMs, request, context } = lease;
    const [row] = await tx.query<{ generation: string }>(this.prepared.acquire, [
      ...[taskNo, this.agent, kind, turnId, version, holder, ttlMs, request, context],
    ]);
    return Number(row?.generation);
  }

  private async repeated(
    executor: SqlExecutor,
    { tenant, owner }: TaskScope,
    { messageId, fingerprint, windowMs }: MessageReceipt,
  ): Promise<number | undefined> {
    const params = [tenant, owner, this.agent, messageId, fingerprint, windowMs];
    const [row] = await executor.query<{ taskNo: string }>(this.prepared.repeated, params);
    return row && Number(row.taskNo);
  }

  private async forgetOrphan(
    tx: SqlExecutor,
    { tenant, owner }: TaskScope,
    { messageId, fingerprint }: MessageReceipt,
  ): Promise<void> {
    const params = [tenant, owner, this.agent, messageId, fingerprint];
    await tx.query(receipts.forgetOrphanStatement(this.tables), params);
  }

  private async remember(
    tx: SqlExecutor,
    { tenant, owner }: TaskScope,
    { messageId, fingerprint, windowMs }: MessageReceipt,
    taskNo: number,
  ): Promise<void> {
    const params = [tenant, owner, this.agent, messageId, fingerprint, windowMs, taskNo];
    await tx.query(this.prepared.remember, params);
  }

  private async doneVersion(tx: SqlExecutor, taskNo: number, commitId: string, after: number): Promise<number | null> {
    const statement = sql.commitDoneStatement(this.tables);
    const [row] = await tx.query<{ version: number | null }>(statement, [taskNo, commitId, after]);
    return row?.version ?? null;
  }
}

/** The status that a batch leaves behind, and the version that set it. */
function lastStatus(events: readonly TaskEvent[], before: number): { state?: string; stateVersion?: number } {
  const at = events.findLastIndex((event) => stateSetBy(event) !== undefined);
  const state = at < 0 ? undefined : stateSetBy(events[at]!);
  return state === undefined ? {} : { state: stateName(state), stateVersion: before + at + 1 };
}
