import type { ListTasksRequest, ListTasksResponse } from '@a2a-js/sdk';
import type { ClusterDatabase } from '../database/cluster-database.js';
import { untilAnswered } from '../database/repeatable.js';
import { countStatement, listStatement } from './list-statements.js';
import { decodePageToken, encodePageToken } from './page-token.js';
import { storedTask, type TaskRow } from './task-rows.js';
import type { TaskTables } from './task-statements.js';
import { stateName } from './task-states.js';
import type { TaskScope } from './task-store.js';

const DEFAULT_PAGE_SIZE = 50;

/** ListTasks: a caller's tasks, newest status first. */
export class TaskListing {
  constructor(
    private readonly database: ClusterDatabase,
    private readonly tables: TaskTables,
    private readonly agent: string,
  ) {}

  async list(params: ListTasksRequest, { tenant, owner }: TaskScope): Promise<ListTasksResponse> {
    const pageSize = params.pageSize ?? DEFAULT_PAGE_SIZE;
    const cursor = params.pageToken ? decodePageToken(params.pageToken) : undefined;
    const filter = [
      ...[tenant, owner, this.agent, params.contextId || null],
      params.status ? stateName(params.status) : null,
      params.statusTimestampAfter ? new Date(params.statusTimestampAfter).toISOString() : null,
    ];
    const page = [...filter, cursor?.stateSinceUs ?? null, cursor?.taskNo ?? null, pageSize + 1];
    const [rows, [count]] = await Promise.all([
      this.read<TaskRow & { stateSinceUs: string }>(listStatement(this.tables), page),
      this.read<{ total: number }>(countStatement(this.tables), filter),
    ]);
    const shown = rows.slice(0, pageSize);
    const last = rows.length > pageSize ? shown.at(-1) : undefined;
    return {
      tasks: shown.map((row) => {
        const { task } = storedTask(row);
        return params.includeArtifacts ? task : { ...task, artifacts: [] };
      }),
      nextPageToken: last ? encodePageToken(last) : '',
      pageSize,
      totalSize: count?.total ?? 0,
    };
  }

  /** One that fails in passing is repeated. */
  private read<R extends object>(statement: string, params: unknown[]): Promise<R[]> {
    return untilAnswered(this.database, (timeoutMs) => this.database.query<R>(statement, params, timeoutMs, 'read'));
  }
}
