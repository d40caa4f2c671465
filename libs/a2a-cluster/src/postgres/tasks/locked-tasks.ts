import type { SqlExecutor } from '../connection/cluster-database.js';
import type { TaskScope } from '../../tasks/task-scope.js';
import type { PreparedTaskStatements } from './prepared-task-statements.js';
import type { DecisionRow } from './task-rows.js';
import { commitDoneStatement, type TaskTables } from './task-statements.js';

/** What is decided about a task under its row lock: the lock first, then statements that see all that came before it. */
export class LockedTasks {
  private readonly commitDone: string;

  constructor(
    private readonly prepared: PreparedTaskStatements,
    tables: TaskTables,
    private readonly agent: string,
  ) {
    this.commitDone = commitDoneStatement(tables);
  }

  /** Locks a task and reads it with its lease; undefined where there is none. */
  async read(tx: SqlExecutor, which: TaskScope | number): Promise<DecisionRow | undefined> {
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

  /** The version that a commit has led to, where it was done after this version; else null. */
  async doneVersion(tx: SqlExecutor, taskNo: number, commitId: string, after: number): Promise<number | null> {
    const [row] = await tx.query<{ version: number | null }>(this.commitDone, [taskNo, commitId, after]);
    return row?.version ?? null;
  }
}
