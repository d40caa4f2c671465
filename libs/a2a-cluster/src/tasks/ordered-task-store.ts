import type { ListTasksRequest, ListTasksResponse, Message, Task } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import type { LeaseRequest } from '../leases/lease-store.js';
import type { HeldLeaseInfo, SeparateLeaseStore } from '../leases/separate-lease-store.js';
import type { TaskEvent, VersionedTaskEvent } from './task-event.js';
import { isInterrupted, isTerminal, stateOf } from './task-states.js';
import {
  type Admission,
  type AdmitOptions,
  type AppendOptions,
  type CancelRequest,
  type CreatedTask,
  type CreateOptions,
  foundState,
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
} from './task-store.js';

/**
 * Tasks whose leases are kept in another place: what one transaction does elsewhere is done here in
 * an order that leaves no gap. Acquire, then save; save, then release. A crash between the two leaves a lease too many,
 * which runs out and is dropped, never a running task without one.
 *
 * The price: a write checks its lease before it saves, not in the same moment. A holder whose lease is claimed
 * between the two may still save once; the version then refuses the claimer's write, which reloads and decides anew.
 */
export class OrderedTaskStore extends VersionedTaskStore {
  constructor(
    private readonly tasks: VersionedTaskStore,
    private readonly leases: SeparateLeaseStore,
  ) {
    super();
  }

  override async create(scope: TaskScope, events: readonly TaskEvent[], options: CreateOptions): Promise<CreatedTask> {
    const { lease, ...rest } = options;
    if (!lease) return this.tasks.create(scope, events, rest);
    // Repeated after a lost answer it finds its own lease.
    const generation = await this.leases.acquire(scope, lease, 0);
    if (generation === undefined) throw new LeaseLostError(scope.taskId, 'another replica has claimed it');
    try {
      return { ...(await this.tasks.create(scope, events, rest)), generation };
    } catch (error) {
      if (isRefusal(error)) await this.leases.release(generation);
      throw error;
    }
  }

  override async append(
    task: { taskNo: number; taskId: string },
    events: readonly TaskEvent[],
    { generation, ...options }: AppendOptions,
  ): Promise<number> {
    if (generation === undefined) return this.tasks.append(task, events, options);
    const { lost } = await this.leases.inspect([generation]);
    if (lost.length > 0) throw new LeaseLostError(task.taskId, 'another replica has claimed or ended it');
    const version = await this.tasks.append(task, events, options);
    // Stored is stored: a lease that could not be released runs out and is dropped.
    if (options.endsTurn) await this.leases.release(generation).catch(() => false);
    return version;
  }

  override async admit(
    scope: TaskScope,
    message: Message,
    lease: LeaseRequest | undefined,
    options: AdmitOptions = {},
  ): Promise<Admission> {
    if (!lease) return this.tasks.admit(scope, message, undefined, options);
    const before = await this.leases.find(scope);
    const ours = before?.turnId === lease.turnId;
    const first = !ours && options.receipt && (await this.tasks.findRepeated(scope, options.receipt));
    if (first !== undefined && first !== false) return { outcome: 'repeated', taskNo: first };
    const held = ours ? undefined : before;
    if (held?.expired) return { outcome: 'abandoned' };
    const found = await this.tasks.find(scope);
    if (!found) return { outcome: 'unknown' };
    if (held && !isTerminal(foundState(found))) {
      return { outcome: 'busy', waiting: asksForInput(found, held) };
    }
    const generation = await this.leases.acquire(scope, lease, found.version + 1);
    if (generation === undefined) return { outcome: 'busy', waiting: false };
    const admission = await this.tasks.admit(scope, message, undefined, { turnId: lease.turnId, ...options });
    if (admission.outcome === 'admitted') return { ...admission, generation };
    await this.leases.release(generation);
    return admission;
  }

  override async requestCancel(
    scope: TaskScope,
    lease: LeaseRequest | undefined,
    options: WriteOptions = {},
  ): Promise<CancelRequest> {
    const found = await this.tasks.find(scope);
    if (!found) return { outcome: 'unknown' };
    if (isTerminal(foundState(found)) || !lease) return this.tasks.requestCancel(scope, undefined, options);
    const generation = await this.leases.acquire(scope, lease, found.version);
    if (generation !== undefined) {
      const request = await this.tasks.requestCancel(scope, undefined, options);
      if (request.outcome === 'admitted') return { ...request, generation };
      await this.leases.release(generation);
      return request;
    }
    await this.leases.requestCancel(scope);
    const { taskNo, version } = found;
    const held = await this.leases.find(scope);
    return held?.expired ? { outcome: 'abandoned' } : { outcome: 'requested', taskNo, version };
  }

  override async forceEnd(
    scope: TaskScope,
    end: (task: Task) => TaskEvent,
    options: WriteOptions & { idleSince?: number } = {},
  ): Promise<StoredTask> {
    const held = await this.leases.find(scope);
    if (held && options.idleSince !== undefined) {
      const found = await this.tasks.find(scope);
      if (found) return found;
    }
    const stored = await this.tasks.forceEnd(scope, end, options);
    if (held && isTerminal(stateOf(stored.task))) await this.leases.release(held.generation);
    return stored;
  }

  override async find(scope: TaskScope): Promise<FoundTask | undefined> {
    const found = await this.tasks.find(scope);
    if (!found) return undefined;
    const held = await this.leases.find(scope);
    return { ...found, waiting: isInterrupted(foundState(found)) && (!held || asksForInput(found, held)) };
  }

  override findRepeated(scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined> {
    return this.tasks.findRepeated(scope, receipt);
  }

  override async findByNo(taskNo: number): Promise<FoundTask | undefined> {
    const found = await this.tasks.findByNo(taskNo);
    return found && this.find(found.scope);
  }

  override async findUpTo(which: TaskScope | number, maxBytes: number): Promise<FoundTask | LargeTask | undefined> {
    const found = await this.tasks.findUpTo(which, maxBytes);
    if (!found) return undefined;
    const held = await this.leases.find(found.scope);
    return { ...found, waiting: isInterrupted(foundState(found)) && (!held || asksForInput(found, held)) };
  }

  override readText(taskNo: number): Promise<TaskText | undefined> {
    return this.tasks.readText(taskNo);
  }

  override overdue(
    waitingForMs: number,
    limit: number,
    afterTaskNo: number,
  ): ReturnType<VersionedTaskStore['overdue']> {
    return this.tasks.overdue(waitingForMs, limit, afterTaskNo);
  }

  override async withoutLease(unchangedForMs: number, limit: number): Promise<TaskScope[]> {
    const idle: TaskScope[] = [];
    // The store knows nothing of these leases: each is asked for.
    for (const scope of await this.tasks.withoutLease(unchangedForMs, limit)) {
      if (!(await this.leases.find(scope))) idle.push(scope);
    }
    if (idle.length === 0) return [];
    // A turn may have ended between the two looks, and its lease with it. What is still running, unchanged, had none.
    const still = new Set((await this.tasks.withoutLease(unchangedForMs, limit)).map(keyOf));
    return idle.filter((scope) => still.has(keyOf(scope)));
  }

  override pruneEvents(olderThanMs: number, limit: number): Promise<number> {
    return this.tasks.pruneEvents(olderThanMs, limit);
  }

  override pruneReceipts(olderThanMs: number, limit: number): Promise<number> {
    return this.tasks.pruneReceipts(olderThanMs, limit);
  }

  override pruneTasks(olderThanMs: number, limit: number): Promise<number> {
    return this.tasks.pruneTasks(olderThanMs, limit);
  }

  override readEvents(taskNo: number, afterVersion: number, limit: number): Promise<VersionedTaskEvent[]> {
    return this.tasks.readEvents(taskNo, afterVersion, limit);
  }

  override versions(taskNos: readonly number[]): Promise<Map<number, number>> {
    return this.tasks.versions(taskNos);
  }

  override positions(taskNos: readonly number[]): Promise<Map<number, TaskPosition>> {
    return this.tasks.positions(taskNos);
  }

  override load(taskId: string, context: ServerCallContext): Promise<Task | undefined> {
    return this.tasks.load(taskId, context);
  }

  override save(task: Task, context: ServerCallContext): Promise<void> {
    return this.tasks.save(task, context);
  }

  override list(params: ListTasksRequest, context: ServerCallContext, makeRoom?: MakeRoom): Promise<ListTasksResponse> {
    return this.tasks.list(params, context, makeRoom);
  }
}

const keyOf = ({ tenant, owner, taskId }: TaskScope): string => JSON.stringify([tenant, owner, taskId]);

/** The turn that holds the lease has itself said that the task waits. */
const asksForInput = (found: StoredTask | LargeTask, { admittedVersion }: HeldLeaseInfo): boolean =>
  isInterrupted(foundState(found)) && found.stateVersion > admittedVersion;

/** Certainly nothing was stored: the lease may go. After any other error it stays, and the retry finds it. */
const isRefusal = (error: unknown): boolean =>
  /^A2A_(CONCURRENT_TASK_MODIFICATION|MESSAGE_REPEATED)$/.test(String((error as { code?: unknown }).code));
