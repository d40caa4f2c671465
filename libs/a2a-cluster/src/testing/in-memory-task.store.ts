import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import type { ListTasksRequest, ListTasksResponse, Message, Task } from '@a2a-js/sdk';
import { type OwnerResolver, resolveUserScope, type ServerCallContext } from '@a2a-js/sdk/server';
import { decodeConfig } from '../push/push-config.codec.js';
import { ConcurrentTaskModificationError } from '../errors/concurrent-task-modification.error.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { MessageRepeatedError } from '../errors/message-repeated.error.js';
import { applyEvent } from '../tasks/apply-event.js';
import { expandTaskEvent } from '../tasks/expand-task-event.js';
import { decodePageToken, encodePageToken } from '../postgres/tasks/page-token.js';
import { stateSetBy, type TaskEvent, type VersionedTaskEvent } from '../tasks/task-event.js';
import { decodeEvent, encodeEvent } from '../tasks/task-event.codec.js';
import { type ScopeResolver, scopeResolver, type TaskScope } from '../tasks/task-scope.js';
import { isInterrupted, isTerminal, stateOf } from '../tasks/task-states.js';
import {
  type Admission,
  type AdmitOptions,
  type AppendOptions,
  type CancelRequest,
  type CreatedTask,
  type CreateOptions,
  type FoundTask,
  type MessageReceipt,
  type PushReceiver,
  type StoredTask,
  type TaskPosition,
  VersionedTaskStore,
} from '../tasks/task-store.js';
import { InMemoryPushConfigStore } from './in-memory-push-config.store.js';

interface Entry {
  version: number;
  text: string;
  commitId: string;
  at: number;
}

interface Row {
  taskNo: number;
  scope: TaskScope;
  contextId: string;
  log: Entry[];
  stateVersion: number;
  stateSince: number;
}

/**
 * Tasks in the memory of this process: for tests. Knows nothing of leases, which the library orders around it. Several
 * apps of one process share them by sharing the instance.
 */
export class InMemoryTaskStore extends VersionedTaskStore {
  /** Emits `change` with a task's number after each write. */
  readonly changes = new EventEmitter().setMaxListeners(0);
  /** The push receivers of these tasks. */
  readonly pushConfigs = new InMemoryPushConfigStore((taskNo) => this.rows[taskNo - 1]?.log.length ?? 0);
  private readonly rows: Row[] = [];
  private readonly receipts = new Map<string, { taskNo: number; at: number }>();
  private readonly seen = new WeakMap<ServerCallContext, Map<string, number>>();
  private readonly scopeOf: ScopeResolver;
  private clock = 0;

  constructor(ownerResolver: OwnerResolver = resolveUserScope) {
    super();
    this.scopeOf = scopeResolver(ownerResolver);
  }

  override find(scope: TaskScope): Promise<FoundTask | undefined> {
    return Promise.resolve(found(this.row(scope)));
  }

  override findByNo(taskNo: number): Promise<FoundTask | undefined> {
    return Promise.resolve(found(this.rows.find((row) => row.taskNo === taskNo)));
  }

  override findRepeated(scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined> {
    return Promise.resolve(this.repeated(scope, receipt));
  }

  override create(scope: TaskScope, events: readonly TaskEvent[], options: CreateOptions): Promise<CreatedTask> {
    return attempt(() => {
      const { commitId, contextId, receipt, push } = options;
      const existing = this.row(scope);
      if (existing?.log[0]?.commitId === commitId) {
        return { taskNo: existing.taskNo, version: events.length, generation: undefined };
      }
      const first = receipt && this.repeated(scope, receipt);
      if (first !== undefined) throw new MessageRepeatedError(first);
      if (existing) throw new ConcurrentTaskModificationError(scope.taskId, 0);
      const taskNo = this.rows.length + 1;
      const row: Row = { taskNo, scope, contextId, log: [], stateVersion: 0, stateSince: this.tick() };
      this.rows.push(row);
      this.write(row, events, commitId);
      if (receipt) this.remember(scope, receipt, taskNo);
      if (push) this.receive(taskNo, push, 0);
      return { taskNo, version: events.length, generation: undefined };
    });
  }

  override append(
    { taskNo, taskId }: { taskNo: number; taskId: string },
    events: readonly TaskEvent[],
    { expectedVersion, commitId }: AppendOptions,
  ): Promise<number> {
    return attempt(() => {
      const row = this.rows.find((one) => one.taskNo === taskNo);
      const done = row?.log.findLast((entry) => entry.version > expectedVersion && entry.commitId === commitId);
      if (done) return done.version;
      if (!row) throw new LeaseLostError(taskId, 'the task was deleted');
      if (isTerminal(stateOfRow(row))) throw new LeaseLostError(taskId, 'the task has ended');
      if (row.log.length !== expectedVersion) throw new ConcurrentTaskModificationError(taskId, expectedVersion);
      return this.write(row, events, commitId);
    });
  }

  override admit(
    scope: TaskScope,
    message: Message,
    _lease: unknown,
    { turnId = randomUUID(), again, receipt, push }: AdmitOptions = {},
  ): Promise<Admission> {
    return attempt<Admission>(() => {
      const row = this.row(scope);
      if (!row) return { outcome: 'unknown' };
      if (again && row.log.some(({ commitId }) => commitId === turnId)) {
        return { outcome: 'admitted', generation: undefined, stored: found(row)! };
      }
      const first = receipt && this.repeated(scope, receipt);
      if (first !== undefined) return { outcome: 'repeated', taskNo: first };
      const state = stateOfRow(row);
      if (isTerminal(state)) return { outcome: 'terminal', state };
      const { contextId } = row;
      if (message.contextId && message.contextId !== contextId) return { outcome: 'otherContext', contextId };
      if (!isInterrupted(state)) return { outcome: 'busy', waiting: false };
      const userMessage = { ...message, contextId, taskId: scope.taskId };
      this.write(row, [{ kind: 'userMessage', userMessage }], turnId);
      if (receipt) this.remember(scope, receipt, row.taskNo);
      if (push) this.receive(row.taskNo, push, row.log.length);
      return { outcome: 'admitted', generation: undefined, stored: found(row)! };
    });
  }

  override requestCancel(scope: TaskScope): Promise<CancelRequest> {
    const stored = found(this.row(scope));
    if (!stored) return Promise.resolve({ outcome: 'unknown' });
    const outcome = isTerminal(stateOf(stored.task)) ? 'terminal' : 'admitted';
    return Promise.resolve({ outcome, stored, generation: undefined });
  }

  override forceEnd(
    scope: TaskScope,
    end: (task: Task) => TaskEvent,
    { idleSince }: { idleSince?: number } = {},
  ): Promise<StoredTask> {
    return attempt(() => {
      const row = this.row(scope);
      if (!row) throw new LeaseLostError(scope.taskId, 'the task was deleted');
      const moved = idleSince !== undefined && row.stateVersion !== idleSince;
      if (!isTerminal(stateOfRow(row)) && !moved) this.write(row, [end(found(row)!.task)], randomUUID());
      return found(row)!;
    });
  }

  override overdue(
    waitingForMs: number,
    limit: number,
    afterTaskNo: number,
  ): ReturnType<VersionedTaskStore['overdue']> {
    const before = Date.now() - waitingForMs;
    const late = this.rows.filter(
      (row) => row.taskNo > afterTaskNo && isInterrupted(stateOfRow(row)) && Math.floor(row.stateSince) <= before,
    );
    return Promise.resolve(late.slice(0, limit));
  }

  /** All that run and are old enough: of leases it knows nothing. */
  override withoutLease(unchangedForMs: number, limit: number): Promise<TaskScope[]> {
    const before = Date.now() - unchangedForMs;
    const running = this.rows.filter((row) => !isInterrupted(stateOfRow(row)) && !isTerminal(stateOfRow(row)));
    const old = running.filter(({ log }) => (log.at(-1)?.at ?? 0) <= before);
    old.sort((one, other) => one.stateSince - other.stateSince);
    return Promise.resolve(old.slice(0, limit).map(({ scope }) => scope));
  }

  /** Nothing: what is kept in memory goes with the test. */
  override pruneEvents(): Promise<number> {
    return Promise.resolve(0);
  }

  override pruneReceipts(): Promise<number> {
    return Promise.resolve(0);
  }

  override pruneTasks(): Promise<number> {
    return Promise.resolve(0);
  }

  override readEvents(taskNo: number, afterVersion: number, limit: number): Promise<VersionedTaskEvent[]> {
    const row = this.rows.find((one) => one.taskNo === taskNo);
    const page = row?.log.slice(afterVersion, afterVersion + limit) ?? [];
    return Promise.resolve(
      page.map(({ version, text }) => ({ version, event: decodeEvent(text), bytes: text.length })),
    );
  }

  override versions(taskNos: readonly number[]): Promise<Map<number, number>> {
    const asked = this.rows.filter(({ taskNo }) => taskNos.includes(taskNo));
    return Promise.resolve(new Map(asked.map(({ taskNo, log }) => [taskNo, log.length])));
  }

  override positions(taskNos: readonly number[]): Promise<Map<number, TaskPosition>> {
    const asked = this.rows.filter(({ taskNo }) => taskNos.includes(taskNo));
    return Promise.resolve(
      new Map(asked.map((row) => [row.taskNo, { version: row.log.length, ended: isTerminal(stateOfRow(row)) }])),
    );
  }

  override load(taskId: string, context: ServerCallContext): Promise<Task | undefined> {
    const stored = found(this.row(this.scopeOf(context, taskId)));
    if (stored) this.noteSeen(context, taskId, stored.version);
    return Promise.resolve(stored?.task);
  }

  override async save(task: Task, context: ServerCallContext): Promise<void> {
    const scope = this.scopeOf(context, task.id);
    const expectedVersion = this.seen.get(context)?.get(task.id) ?? 0;
    const commitId = randomUUID();
    if (expectedVersion === 0) {
      await this.create(scope, [{ kind: 'task', task }], { contextId: task.contextId, commitId, snapshot: '' });
      return this.noteSeen(context, task.id, 1);
    }
    const stored = found(this.row(scope));
    if (stored?.version !== expectedVersion) throw new ConcurrentTaskModificationError(task.id, expectedVersion);
    const events = expandTaskEvent(stored.task, task);
    if (events.length === 0) return;
    const options = { expectedVersion, commitId, endsTurn: false };
    const version = await this.append({ taskNo: stored.taskNo, taskId: task.id }, events, options);
    this.noteSeen(context, task.id, version);
  }

  override list(params: ListTasksRequest, context: ServerCallContext): Promise<ListTasksResponse> {
    return attempt(() => {
      const pageSize = params.pageSize ?? 50;
      const { tenant, owner } = this.scopeOf(context, '');
      const after = params.statusTimestampAfter ? Date.parse(params.statusTimestampAfter) : -Infinity;
      const matching = this.rows
        .filter(({ scope }) => scope.tenant === tenant && scope.owner === owner)
        .filter((row) => !params.contextId || row.contextId === params.contextId)
        .filter((row) => !params.status || stateOfRow(row) === params.status)
        .filter((row) => row.stateSince > after)
        .sort((one, other) => other.stateSince - one.stateSince || other.taskNo - one.taskNo);
      const cursor = params.pageToken ? decodePageToken(params.pageToken) : undefined;
      const rest = cursor ? matching.filter((row) => isBefore(row, cursor)) : matching;
      const page = rest.slice(0, pageSize);
      const last = rest.length > pageSize ? page.at(-1) : undefined;
      return {
        tasks: page.map((row) => ({ ...found(row)!.task, ...(!params.includeArtifacts && { artifacts: [] }) })),
        nextPageToken: last ? encodePageToken(cursorOf(last)) : '',
        pageSize,
        totalSize: matching.length,
      };
    });
  }

  private row(scope: TaskScope): Row | undefined {
    return this.rows.find(
      ({ scope: { tenant, owner, taskId } }) =>
        tenant === scope.tenant && owner === scope.owner && taskId === scope.taskId,
    );
  }

  private write(row: Row, events: readonly TaskEvent[], commitId: string): number {
    for (const event of events) {
      const version = row.log.length + 1;
      row.log.push({ version, text: encodeEvent(event), commitId, at: Date.now() });
      if (stateSetBy(event) === undefined) continue;
      row.stateVersion = version;
      row.stateSince = this.tick();
    }
    this.changes.emit('change', row.taskNo);
    return row.log.length;
  }

  /** Milliseconds that never repeat, so that the order of a list is the order of the writes. */
  private tick(): number {
    this.clock = Math.max(this.clock + 0.001, Date.now());
    return this.clock;
  }

  private repeated(scope: TaskScope, receipt: MessageReceipt): number | undefined {
    const known = this.receipts.get(receiptKey(scope, receipt));
    return known && known.at > Date.now() - receipt.windowMs ? known.taskNo : undefined;
  }

  private receive(taskNo: number, { config, wireVersion }: PushReceiver, version: number): void {
    this.pushConfigs.register(taskNo, { config: decodeConfig(config), wireVersion }, version);
  }

  private remember(scope: TaskScope, receipt: MessageReceipt, taskNo: number): void {
    this.receipts.set(receiptKey(scope, receipt), { taskNo, at: Date.now() });
  }

  private noteSeen(context: ServerCallContext, taskId: string, version: number): void {
    const versions = this.seen.get(context) ?? new Map<string, number>();
    this.seen.set(context, versions.set(taskId, version));
  }
}

/** As a promise, with what is thrown as its rejection. */
const attempt = <T>(work: () => T): Promise<T> => new Promise((resolve) => resolve(work()));

const receiptKey = ({ tenant, owner }: TaskScope, { messageId, fingerprint }: MessageReceipt): string =>
  JSON.stringify([tenant, owner, messageId, fingerprint]);

const fold = ({ log }: Row): Task =>
  log.reduce<Task | undefined>((task, { text }) => applyEvent(task, decodeEvent(text)), undefined)!;

const stateOfRow = (row: Row) => stateOf(fold(row));

function found(row: Row | undefined): FoundTask | undefined {
  if (!row) return undefined;
  const { taskNo, scope, stateVersion, log } = row;
  return { taskNo, scope, stateVersion, version: log.length, task: fold(row), waiting: isInterrupted(stateOfRow(row)) };
}

const cursorOf = ({ stateSince, taskNo }: Row) => ({
  stateSinceUs: String(Math.round(stateSince * 1000)),
  taskNo: String(taskNo),
});

const isBefore = (row: Row, cursor: { stateSinceUs: string; taskNo: string }): boolean => {
  const at = Math.round(row.stateSince * 1000) - Number(cursor.stateSinceUs);
  return at < 0 || (at === 0 && row.taskNo < Number(cursor.taskNo));
};
