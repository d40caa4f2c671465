import type { ListTasksRequest, ListTasksResponse, Task } from '@a2a-js/sdk';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import { readRepeatedly } from '../connection/repeatable.js';
import type { Statement } from '../connection/statement.js';
import { turnOfTheLoop } from '../../async/turn-of-the-loop.js';
import { LARGE_BYTES } from '../../tasks/json-size.js';
import { countStatement, type ListedRow, listStatement } from './list-statements.js';
import { decodePageToken, encodePageToken } from './page-token.js';
import { decodeTask } from '../../tasks/task-event.codec.js';
import { storedTask } from './task-rows.js';
import type { TaskTables } from './task-statements.js';
import { stateName } from '../../tasks/task-states.js';
import type { MakeRoom, TaskScope } from '../../tasks/task-store.js';

const DEFAULT_PAGE_SIZE = 50;

/** A page ends with the task that makes these bytes full: what is read is held in memory, and decoded. */
const PAGE_BYTES = 2 * 1024 * 1024;

/** For so long tasks are decoded before the event loop has a turn, in ms. */
const SPELL_MS = 5;

/** ListTasks: a caller's tasks, newest status first. */
export class TaskListing {
  private readonly page: ReturnType<typeof listStatement>;
  private readonly count: ReturnType<typeof countStatement>;

  constructor(
    private readonly database: ClusterDatabase,
    tables: TaskTables,
    private readonly agent: string,
  ) {
    this.page = listStatement(tables);
    this.count = countStatement(tables);
  }

  async list(params: ListTasksRequest, { tenant, owner }: TaskScope, makeRoom?: MakeRoom): Promise<ListTasksResponse> {
    const pageSize = params.pageSize ?? DEFAULT_PAGE_SIZE;
    const cursor = params.pageToken ? decodePageToken(params.pageToken) : undefined;
    const filter = {
      tenant,
      owner,
      agent: this.agent,
      contextId: params.contextId || undefined,
      state: params.status ? stateName(params.status) : undefined,
      statusAfter: params.statusTimestampAfter ? new Date(params.statusTimestampAfter).toISOString() : undefined,
    };
    const rows = (bytesAtOnce: number): Promise<ListedRow[]> =>
      this.read(this.page, {
        ...filter,
        cursorUs: cursor?.stateSinceUs,
        cursorTaskNo: cursor?.taskNo,
        limit: pageSize + 1,
        bytesAtOnce,
        pageBytes: PAGE_BYTES,
        byHead: params.historyLength === 0 && !params.includeArtifacts,
      });
    const [first, [counted]] = await Promise.all([rows(LARGE_BYTES), this.read(this.count, filter)]);
    let shown = first.slice(0, pageSize);
    if (!shown.every(isRead)) {
      await makeRoom?.(shown.reduce((sum, { size }) => sum + size, 0));
      shown = (await rows(Number.MAX_SAFE_INTEGER)).slice(0, pageSize);
    }
    const last = shown.at(-1);
    return {
      tasks: await this.tasksOf(shown, params.includeArtifacts === true),
      nextPageToken: last && last.found > shown.length ? encodePageToken(last) : '',
      pageSize,
      totalSize: counted?.total ?? 0,
    };
  }

  /** One that fails in passing is repeated. */
  private read<P extends object, R extends object>(statement: Statement<P, R>, params: P): Promise<R[]> {
    return readRepeatedly(this.database, statement, params);
  }

  private async tasksOf(rows: readonly ListedRow[], includeArtifacts: boolean): Promise<Task[]> {
    const tasks: Task[] = [];
    let since = performance.now();
    for (const row of rows) {
      const task = taskOf(row);
      tasks.push(includeArtifacts ? task : { ...task, artifacts: [] });
      if (performance.now() - since < SPELL_MS) continue;
      await turnOfTheLoop();
      since = performance.now();
    }
    return tasks;
  }
}

const isRead = ({ head, snapshot }: ListedRow): boolean => head !== null || snapshot !== null;

const taskOf = (row: ListedRow): Task =>
  row.head !== null ? decodeTask(row.head) : storedTask({ ...row, snapshot: row.snapshot! }).task;
