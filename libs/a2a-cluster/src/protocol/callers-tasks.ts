import { Injectable } from '@nestjs/common';
import type { ListTasksRequest, ListTasksResponse } from '@a2a-js/sdk';
import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { LARGE_BYTES } from '../tasks/json-size.js';
import { type ScopeResolver, scopeResolver } from '../tasks/task-scope.js';
import type { FoundTask, LargeTask, MakeRoom, StoredTask, TaskScope } from '../tasks/task-store.js';
import { checkListTasks, checkScope, requireId } from './request-validation.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';

/** The tasks that a caller may see. All others are not there for that caller. */
@Injectable()
export class CallersTasks {
  private readonly scopeOf: ScopeResolver;

  constructor(
    private readonly tasks: LeasedTaskStore,
    { ownerResolver }: ResolvedOptions,
  ) {
    this.scopeOf = scopeResolver(ownerResolver);
  }

  /** The scope of the task that a call is about. Throws if tenant or owner cannot be stored. */
  scope(context: ServerCallContext, taskId: string): TaskScope {
    const scope = this.scopeOf(context, taskId);
    checkScope(scope.tenant, scope.owner);
    return scope;
  }

  /** The task as it is. Throws TaskNotFoundError. */
  async require(taskId: string, context: ServerCallContext): Promise<StoredTask> {
    const stored = await this.tasks.find(this.scope(context, requireId('Task id', taskId)));
    if (!stored) throw new TaskNotFoundError(`Task not found: ${taskId}`);
    return stored;
  }

  /** The same, but what a large task holds is left out. */
  async look(taskId: string, context: ServerCallContext): Promise<FoundTask | LargeTask> {
    const found = await this.tasks.findUpTo(this.scope(context, requireId('Task id', taskId)), LARGE_BYTES);
    if (!found) throw new TaskNotFoundError(`Task not found: ${taskId}`);
    return found;
  }

  /** A page of them. */
  list(params: ListTasksRequest, context: ServerCallContext, makeRoom: MakeRoom): Promise<ListTasksResponse> {
    checkListTasks(params);
    this.scope(context, '');
    return this.tasks.list(params, context, makeRoom);
  }
}
